/**
 * Trailing single-flight: runs `work` once at a time. A call while it is running schedules one more run, which sees the call's effects;
 * further calls until then are covered by that run and return immediately.
 */
export function singleFlight(work: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined;
  let next: Promise<void> | undefined;

  function start(): Promise<void> {
    running = work().finally(() => {
      running = undefined;
    });
    return running;
  }

  return async () => {
    if (!running) return start();
    if (next) return;
    next = running
      .catch(() => undefined)
      .then(() => {
        next = undefined;
        return start();
      });
    await next;
  };
}
