/** Checks at startup that the token is the one against which signatures are verified. */

import { assertTokenDomain } from "../../core/chain/usdc.ts";
import type { Chain } from "../../core/rpc/chain-client.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import { openFailureLog } from "../../core/runtime/failure-log.ts";
import type { Log } from "../../core/runtime/log.ts";
import type { Stop } from "../../core/runtime/shutdown.ts";

const RETRY_MS = 1_000;
/** A network whose nodes hang delays neither mails and webhooks nor the other network. */
const WAIT_MAX_MS = 10_000;

/**
 * Ends the process when a chain's token has another domain. Resolves when all of them are checked, or after ten seconds: a chain whose nodes are
 * unavailable is checked when one answers.
 */
export async function checkUsdcContracts(
  chains: readonly Chain[],
  { log, stop }: { log: Log; stop: Pick<Stop, "signal" | "fail"> },
): Promise<void> {
  const checked = Promise.all(chains.map((chain) => checkUsdcContract(chain, log, stop.signal)));
  checked.catch((error: unknown) => stop.fail("the token could not be verified", error));
  await Promise.race([checked, Bun.sleep(WAIT_MAX_MS)]);
}

async function checkUsdcContract(chain: Chain, log: Log, stop: AbortSignal): Promise<void> {
  const logFailure = openFailureLog(log);
  while (!stop.aborted) {
    try {
      return await assertTokenDomain(chain);
    } catch (error) {
      if (!(error instanceof RpcTransportError)) throw error;
      if (stop.aborted) return;
      logFailure("warn", { network: chain.network.id, err: error }, "no node available yet; retrying");
      await Bun.sleep(RETRY_MS);
    }
  }
}
