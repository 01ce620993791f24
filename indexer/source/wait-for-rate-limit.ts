import type { Chain } from "../../core/rpc/chain-client.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";

const REST_MAX_MS = 2_000;

/**
 * The only node has asked for a short rest: waits for its end, so that what was read so far is not read again. False when there is
 * another node to ask, or another reason.
 */
export async function waitForRateLimit(chain: Chain, error: unknown): Promise<boolean> {
  if (!(error instanceof RpcTransportError) || error.kind !== "rate-limit" || chain.nodes.length > 1)
    return false;
  if (error.retryAfterMs === undefined || error.retryAfterMs > REST_MAX_MS) return false;
  await Bun.sleep(error.retryAfterMs + 1);
  return true;
}
