/** Before a signature is relayed: is the token the one we check signatures against? */

import { assertTokenDomain } from "../../core/chain/usdc.ts";
import type { Chain } from "../../core/rpc/chain-client.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import type { Log } from "../../core/runtime/log.ts";

const RETRY_MS = 1_000;
const LOOKS_MAX = 10;

/** Throws when a chain's token has another domain. A node that is away is asked again; then we start all the same. */
export async function checkTokens(chains: readonly Chain[], log: Log): Promise<void> {
  await Promise.all(chains.map((chain) => checkToken(chain, log)));
}

async function checkToken(chain: Chain, log: Log): Promise<void> {
  for (let look = 0; look < LOOKS_MAX; look++) {
    try {
      return await assertTokenDomain(chain);
    } catch (error) {
      if (!(error instanceof RpcTransportError)) throw error;
      log.warn({ network: chain.network.id, err: error }, "no node answers yet");
      await Bun.sleep(RETRY_MS);
    }
  }
}
