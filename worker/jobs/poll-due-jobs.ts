/**
 * Finds jobs that became due by time: delayed ones and retries, which no notification announces. graphile-worker has every idle worker of a
 * pool poll by itself, with WORKER_CONCURRENCY statements a second that find the same; here one of them polls for all.
 */
import type { WorkerEvents, WorkerPool } from "graphile-worker";

const POLL_MS = 1_000;
/** Of graphile-worker's own polls: for a nudge that went to a worker about to end. */
export const OWN_POLL_MS = 30_000;

/** For the pool that is created next on these events. Ends with the pool, or when the returned function is called. */
export function pollDueJobs(events: WorkerEvents): () => void {
  let timer: ReturnType<typeof setInterval> | undefined;
  let pool: WorkerPool | undefined;
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
  // several may have become due at once: whoever takes one has the next worker look
  events.on("job:start", ({ job }) => {
    if (job.run_at > job.created_at) poll();
  });
  events.on("pool:release", end);
  return end;
}
