/** Waits when the only node limits the rate of requests for a short time. */
import type { Chain } from "../../core/rpc/chain-client.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";

const WAIT_MAX_MS = 2_000;

/**
 * True after the wait that the node asked for, so that what was read so far is not read again. False without a wait when there is
 * another node to ask, the wait is too long, or the error is another one.
 */
export async function waitForRateLimit(chain: Chain, error: unknown): Promise<boolean> {
  if (!(error instanceof RpcTransportError) || error.kind !== "rate-limit" || chain.nodes.length > 1)
    return false;
  if (error.retryAfterMs === undefined || error.retryAfterMs > WAIT_MAX_MS) return false;
  await Bun.sleep(error.retryAfterMs + 1);
  return true;
}
