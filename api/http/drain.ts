/**
 * Graceful shutdown behind a load balancer, without failed requests: the process first reports that it is not ready and
 * keeps serving, with `connection: close`, until the balancer has noticed; only then it stops listening and finishes running requests.
 */
import type { Log } from "../../core/runtime/log.ts";

export type Drain = {
  /** Set by the stop signal: not ready, and no connection is kept alive. */
  readonly isDraining: boolean;
  /** Aborted when the process stops listening: endless streams close, and their clients reconnect elsewhere. */
  readonly closing: AbortSignal;
  begin: () => void;
  close: () => void;
};

export function openDrain(): Drain {
  const closing = new AbortController();
  let isDraining = false;
  return {
    get isDraining() {
      return isDraining;
    },
    closing: closing.signal,
    begin() {
      isDraining = true;
    },
    close: () => closing.abort(),
  };
}

/** Resolves when all requests are finished. After `drainS` the server refuses connections and closes idle ones. */
export async function drainServer(
  drain: Drain,
  { server, drainS, log }: { server: { stop: () => unknown } | null; drainS: number; log: Log },
): Promise<void> {
  drain.begin();
  if (drainS > 0) log.info({ drainS }, "not ready; draining");
  await Bun.sleep(drainS * 1000);
  drain.close();
  await server?.stop();
}
