/**
 * Runs the job queue, and starts a new runner after each lost connection. graphile-worker 0.18.0 recovers silently and badly: it sleeps for
 * minutes if the server was starting up; a job that was locked without a response stays locked for four hours by a live pool; and a completion
 * that could not be written stops the runner, which then waits forever because its count is wrong. So the first sign of a lost connection ends a
 * runner, and a new one with another name takes over and releases the old one's locks.
 */
import { EventEmitter } from "node:events";
import { Logger, parseCronItems, run, type TaskList, type WorkerEvents } from "graphile-worker";
import { type FailureLog, openFailureLog } from "../../core/runtime/failure-log.ts";
import type { Log } from "../../core/runtime/log.ts";
import { readAddress } from "../../db/postgres/address.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { SESSION_OPTIONS } from "../../db/postgres/session-settings.ts";
import { watchLiveness } from "./liveness.ts";
import { OWN_POLL_MS, pollDueJobs } from "./poll-due-jobs.ts";
import { QueuePool } from "./queue-pool.ts";

/** Time for running jobs to end when the queue is closed. */
const JOBS_TIMEOUT_MS = 8_000;
/** Time to write the last job's completion. */
const COMPLETION_TIMEOUT_MS = 1_000;
/** Time to release locks and connections: an unreachable database must not delay the stop, and its locks end with the connections. */
const RELEASE_TIMEOUT_MS = 1_500;
/** Backoff before another start, doubled each time; a runner that lived for STEADY_AFTER_MS resets it. */
const PAUSE_MIN_MS = 100;
const PAUSE_MAX_MS = 2_000;
const STEADY_AFTER_MS = 60_000;

export type QueueSettings = {
  sql: Sql;
  log: Log;
  databaseUrl: string;
  concurrency: number;
  maxConnections: number;
  taskList: TaskList;
};

/** Throws when the first start fails; later failures are retried forever. Returns a function that stops it after running jobs have ended. */
export async function runQueue(settings: QueueSettings): Promise<() => Promise<void>> {
  const over = Promise.withResolvers<void>();
  const closing = new Set<Promise<void>>();
  const logFailure = openFailureLog(settings.log);
  let isOver = false;

  /** Its jobs finish while the next runner is already working. */
  function close(runner: Runner): void {
    const closed = runner.close().finally(() => closing.delete(closed));
    closing.add(closed);
  }

  async function keep(first: Runner): Promise<void> {
    let pauseMs = PAUSE_MIN_MS;
    for (let runner: Runner | undefined = first; ; runner = await tryOpenRunner(settings, logFailure)) {
      const startedMs = performance.now();
      const why = runner && (await Promise.race([runner.ended, over.promise]));
      if (runner) close(runner);
      if (isOver) break;
      if (runner) settings.log.error({ err: why }, "job queue lost its database; restarting");
      if (performance.now() - startedMs >= STEADY_AFTER_MS) pauseMs = PAUSE_MIN_MS;
      await Promise.race([Bun.sleep(pauseMs), over.promise]);
      if (isOver) break;
      pauseMs = Math.min(2 * pauseMs, PAUSE_MAX_MS);
    }
    await Promise.all(closing);
  }

  const keeping = keep(await openRunner(settings));
  return () => {
    isOver = true;
    over.resolve();
    return keeping;
  };
}

async function tryOpenRunner(settings: QueueSettings, logFailure: FailureLog): Promise<Runner | undefined> {
  try {
    const runner = await openRunner(settings);
    settings.log.info("job queue restarted");
    return runner;
  } catch (error) {
    logFailure("warn", { err: error }, "job queue failed to start; retrying");
    return undefined;
  }
}

type Runner = {
  /** Resolves with the reason when the runner can no longer be relied on. */
  ended: Promise<unknown>;
  /** Waits for running jobs, then releases locks and connections. Bounded, never throws. */
  close(): Promise<void>;
};

async function openRunner(settings: QueueSettings): Promise<Runner> {
  const { sql, log, databaseUrl, concurrency, maxConnections, taskList } = settings;
  const ended = Promise.withResolvers<unknown>();
  const events: WorkerEvents = new EventEmitter();
  let releaseLiveness = async () => {};
  events.on("pool:create", ({ workerPool }) => {
    releaseLiveness = watchLiveness(sql, log, workerPool.id);
  });
  events.on("pool:listen:error", ({ error }) => ended.resolve(error));
  events.on("worker:getJob:error", ({ error }) => ended.resolve(error));
  events.on("pool:fatalError", ({ error }) => ended.resolve(error));
  events.on("pool:gracefulShutdown", ({ message }) => ended.resolve(new Error(message)));
  const idle = watchIdleness(events);
  const endPolling = pollDueJobs(events);
  const { url: connectionString, ...tls } = readAddress(databaseUrl);
  const pool = new QueuePool(
    { connectionString, ...tls, ...{ max: maxConnections, options: SESSION_OPTIONS } },
    (error) => log.warn({ err: error }, "queue connection lost"),
  );
  const release = async () => {
    endPolling();
    await atMost(RELEASE_TIMEOUT_MS, releaseLiveness());
    await atMost(RELEASE_TIMEOUT_MS, pool.end());
  };
  try {
    const runner = await run({
      ...OPTIONS,
      pgPool: pool,
      concurrency,
      events,
      logger: queueLogger(log),
      taskList,
    });
    runner.promise.then(() => ended.resolve(new Error("the runner ended")), ended.resolve);
    return {
      ended: ended.promise,
      async close() {
        endPolling();
        const stopped = Promise.allSettled([runner.stop(), runner.promise]);
        await atMost(
          JOBS_TIMEOUT_MS,
          Promise.race([stopped, idle().then(() => Bun.sleep(COMPLETION_TIMEOUT_MS))]),
        );
        await release();
      },
    };
  } catch (error) {
    await release();
    throw error;
  }
}

/** Completions are written immediately: a delayed one would be lost at SIGTERM and its job would run again. */
const OPTIONS = {
  pollInterval: OWN_POLL_MS,
  noHandleSignals: true,
  parsedCronItems: parseCronItems(
    ["housekeeping", "close_months", "fetch_rates", "run_schedules"].map((task) => ({
      task,
      match: "* * * * *",
      identifier: task,
    })),
  ),
  preset: {
    worker: {
      completeJobBatchDelay: 0,
      failJobBatchDelay: 0,
      gracefulShutdownAbortTimeout: JOBS_TIMEOUT_MS,
    },
  },
};

/** The returned function resolves when no job is running. */
function watchIdleness(events: WorkerEvents): () => Promise<void> {
  let running = 0;
  const waiting = new Set<() => void>();
  events.on("job:start", () => {
    running += 1;
  });
  events.on("job:complete", () => {
    running -= 1;
    if (running === 0) for (const resolve of waiting) resolve();
  });
  return () => (running === 0 ? Promise.resolve() : new Promise((resolve) => waiting.add(resolve)));
}

/** Waits until `work` has settled, either way, but no longer than this. */
async function atMost(timeoutMs: number, work: Promise<unknown>): Promise<void> {
  await Promise.race([Promise.allSettled([work]), Bun.sleep(timeoutMs)]);
}

/** Fewer connections than concurrent jobs are enough, because a job holds none of them. */
const MISTAKEN_WARNING = "maxPoolSize";

/** Passes the library's own warnings and errors to our logs, named as such, without its line per job. */
function queueLogger(log: Log): Logger {
  return new Logger(() => (level, message) => {
    if (message.includes(MISTAKEN_WARNING)) return;
    if (level === "error") log.error(`job queue: ${message}`);
    else if (level === "warning") log.warn(`job queue: ${message}`);
  });
}
