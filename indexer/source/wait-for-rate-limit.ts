/** Waits when every node limits the rate of requests for a short time. */
import type { Chain } from "../../core/rpc/chain-client.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";

const WAIT_MAX_MS = 2_000;

/**
 * True after the wait that the node asked for, or the one that rests least of several, so that what was read so far is not read again.
 * False without a wait when there is another node to ask, the wait is too long, or the error is another one.
 */
export async function waitForRateLimit(chain: Chain, error: unknown): Promise<boolean> {
  if (!(error instanceof RpcTransportError) || error.kind !== "rate-limit") return false;
  const waitMs = chain.nodes.length > 1 ? restOf(chain) : error.retryAfterMs;
  if (waitMs === undefined || waitMs > WAIT_MAX_MS) return false;
  await Bun.sleep(waitMs + 1);
  return true;
}

/** Until the first of them may be asked; undefined when one may be now. */
function restOf({ nodes }: Chain): number | undefined {
  const restMs = Math.min(...nodes.map(({ health }) => health.restUntilMs)) - performance.now();
  return restMs > 0 ? restMs : undefined;
}
