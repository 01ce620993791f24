/** Checks at startup that the token is the one against which signatures are verified. */

import { assertTokenDomain } from "../../core/chain/usdc.ts";
import type { Chain } from "../../core/rpc/chain-client.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import { openFailureLog } from "../../core/runtime/failure-log.ts";
import type { Log } from "../../core/runtime/log.ts";

const RETRY_MS = 1_000;
const ATTEMPTS_MAX = 10;

/** Throws when a chain's token has another domain. An unavailable node is retried; if it stays unavailable, the worker starts anyway. */
export async function checkUsdcContracts(chains: readonly Chain[], log: Log): Promise<void> {
  await Promise.all(chains.map((chain) => checkUsdcContract(chain, log)));
}

async function checkUsdcContract(chain: Chain, log: Log): Promise<void> {
  const logFailure = openFailureLog(log);
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
    try {
      return await assertTokenDomain(chain);
    } catch (error) {
      if (!(error instanceof RpcTransportError)) throw error;
      logFailure("warn", { network: chain.network.id, err: error }, "no node available yet; retrying");
      await Bun.sleep(RETRY_MS);
    }
  }
}
