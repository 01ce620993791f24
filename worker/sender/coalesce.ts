/**
 * Runs `work` once at a time. A call while it runs makes it run once more, for what that call left behind may have been
 * missed; further calls meanwhile are covered by that one and end at once.
 */
export function oneAtATime(work: () => Promise<void>): () => Promise<void> {
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
