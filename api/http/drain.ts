/**
 * Stopping without a failed request behind a load balancer: the process first says that it is not ready and goes on answering, each
 * answer with `connection: close`, until the balancer has seen it; only then it stops listening and finishes what is running.
 */
import type { Log } from "../../core/runtime/log.ts";

export type Drain = {
  /** From the stop signal on: not ready, and no connection is kept. */
  readonly isDraining: boolean;
  /** Aborted when the process stops listening: streams without an end of their own close, and their clients reconnect elsewhere. */
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

/** Resolves when all requests are answered. The server refuses connections from `drainS` on and closes those without a request. */
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
