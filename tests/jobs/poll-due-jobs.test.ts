/** Jobs that become due by time are found by one poll a second for the whole pool, however many are due at once. */
import { afterAll, beforeAll, expect, jest, test } from "bun:test";
import { EventEmitter } from "node:events";
import type { WorkerEvents } from "graphile-worker";
import { type Log, openLog } from "../../core/runtime/log.ts";
import { enqueue } from "../../db/jobs/queue.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { runQueue } from "../../worker/jobs/job-queue.ts";
import { pollDueJobs } from "../../worker/jobs/poll-due-jobs.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";

const JOBS = 3;
const DELAY_MS = 1_500;
/** Of graphile-worker's own polls, which would find them too. */
const FALLBACK_MS = 30_000;

let db: TestDatabase;
let sql: Sql;
beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 4 });
});
afterAll(async () => {
  await sql?.end({ timeout: 5 });
  await db?.drop();
});

test("jobs that become due together run concurrently, without a notification", async () => {
  const together = Promise.withResolvers<void>();
  let running = 0;
  const stop = await runQueue({
    ...{ sql, log: openLog("worker", "silent"), databaseUrl: db.url },
    ...{ concurrency: JOBS + 1, maxConnections: 4 },
    taskList: {
      async deliver_webhooks() {
        running += 1;
        if (running === JOBS) together.resolve();
        await together.promise;
      },
    },
  });
  try {
    const startedMs = performance.now();
    const runAt = new Date(Date.now() + DELAY_MS);
    for (let n = 0; n < JOBS; n++) await enqueue(sql, "deliver_webhooks", { at: String(n) }, { runAt });
    await together.promise;
    expect(performance.now() - startedMs).toBeWithin(DELAY_MS - 500, FALLBACK_MS / 2);
  } finally {
    together.resolve();
    await stop();
  }
});

test("fewer connections than concurrent jobs cause no warning", async () => {
  const warned: unknown[] = [];
  const log = {
    ...openLog("worker", "silent"),
    warn: (...given: unknown[]) => void warned.push(given),
  } as Log;
  const stop = await runQueue({
    ...{ sql, log, databaseUrl: db.url, concurrency: 8, maxConnections: 4 },
    taskList: {},
  });
  await stop();
  expect(warned).toEqual([]);
});

test("a delayed job or a retry makes the next worker poll immediately, a job with a notification does not", () => {
  const nudge = jest.fn();
  const events = openPool({ nudge });
  const created = new Date();
  const job = { created_at: created, run_at: created, attempts: 1 };
  events.emit("pool:listen:notification", {});
  events.emit("job:start", { job });
  expect(nudge).not.toHaveBeenCalled();
  events.emit("job:start", { job: { ...job, run_at: new Date(created.getTime() + 1) } });
  expect(nudge).toHaveBeenCalledTimes(1);
  events.emit("job:start", { job: { ...job, attempts: 2 } });
  expect(nudge).toHaveBeenCalledTimes(2);
});

test("a job without a notification makes the next worker poll immediately: a worker may have died with several jobs", () => {
  const nudge = jest.fn();
  const created = new Date();
  openPool({ nudge }).emit("job:start", { job: { created_at: created, run_at: created, attempts: 1 } });
  expect(nudge).toHaveBeenCalledTimes(1);
});

test("a pool that shuts down is not polled after its end, and a refused wake-up does no harm", () => {
  const nudge = jest.fn(() => {
    throw new Error("nudge called after worker terminated");
  });
  const events = openPool({ nudge });
  const delayed = { job: { created_at: new Date(0), run_at: new Date() } };
  expect(() => events.emit("job:start", delayed)).not.toThrow();
  events.emit("pool:release", {});
  events.emit("job:start", delayed);
  expect(nudge).toHaveBeenCalledTimes(1);
});

/** What graphile-worker tells of a pool that it has opened. */
function openPool(workerPool: { nudge: (count: number) => void }): EventEmitter {
  const events = new EventEmitter();
  ends.push(pollDueJobs(events as WorkerEvents));
  events.emit("pool:create", { workerPool });
  return events;
}
const ends: (() => void)[] = [];
afterAll(() => {
  for (const end of ends) end();
});
