/**
 * Finds jobs without a notification: delayed ones, retries, and those of a worker that died. In graphile-worker every idle worker of a
 * pool polls, which makes WORKER_CONCURRENCY equal statements per second; here one of them polls for all.
 */
import type { WorkerEvents, WorkerPool } from "graphile-worker";

const POLL_MS = 1_000;
/** Interval of graphile-worker's own polls, as a fallback. */
export const OWN_POLL_MS = 30_000;

/** Applies to the next pool created on these events. Ends with the pool, or when the returned function is called. */
export function pollDueJobs(events: WorkerEvents): () => void {
  let timer: ReturnType<typeof setInterval> | undefined;
  let pool: WorkerPool | undefined;
  let notifiedMs = Number.NEGATIVE_INFINITY;
  const end = () => {
    clearInterval(timer);
    pool = undefined;
  };
  const poll = () => {
    try {
      pool?.nudge(1);
    } catch {
      // the pool is shutting down: a worker that was released must not be nudged
    }
  };
  events.on("pool:create", ({ workerPool }) => {
    pool = workerPool;
    timer = setInterval(poll, POLL_MS);
  });
  events.on("pool:listen:notification", () => {
    notifiedMs = performance.now();
  });
  // there may be several jobs: a worker that takes one without a notification wakes the next worker
  events.on("job:start", ({ job }) => {
    const isNotified = performance.now() - notifiedMs < POLL_MS;
    if (!isNotified || job.attempts > 1 || job.run_at > job.created_at) poll();
  });
  events.on("pool:release", end);
  return end;
}
