/** The queue of a worker: what becomes of its running jobs when it stops, and of itself when the database is unavailable. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import { type Log, openLog } from "../../core/runtime/log.ts";
import { enqueue } from "../../db/jobs/queue.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { runQueue } from "../../worker/jobs/job-queue.ts";
import { createTestDatabase, TEST_POOL, type TestDatabase } from "../support/postgres.ts";
import { startTcpRelay, type TcpRelay } from "../support/tcp-relay.ts";

/** Longer than the queue waits, when it stops, for the completion of a job that has ended. */
const LONG_JOB_MS = 2_500;
/** After this the queue has tried six times to start again, the last time two seconds before. */
const OUTAGE_MS = 6_500;
/** The longest pause between two starts, and what a start takes. */
const RESTART_MAX_MS = 5_000;
let db: TestDatabase;
let sql: Sql;
/** The queue's way to the database. */
let relay: TcpRelay;
let port: number;
let databaseUrl: string;

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { ...TEST_POOL, maxConnections: 4 });
  const url = new URL(db.url);
  port = Number(url.port);
  relay = await startTcpRelay({ targetPort: port });
  url.port = String(relay.port);
  url.hostname = "127.0.0.1";
  databaseUrl = url.href;
});
beforeEach(async () => {
  await sql`delete from graphile_worker._private_jobs`;
});
afterAll(async () => {
  await relay?.stop();
  await sql?.end({ timeout: 5 });
  await db?.drop();
});

const start = (taskList: Parameters<typeof runQueue>[0]["taskList"], log = openLog("worker", "silent")) =>
  runQueue({ sql, log, databaseUrl, concurrency: 3, maxConnections: 3, taskList });

/** A log that keeps these lines. */
function keepLines(lines: string[]): Log {
  const keep = (...given: unknown[]) => void lines.push(String(given.at(-1)));
  return { ...openLog("worker", "silent"), error: keep, warn: keep } as unknown as Log;
}

test("a queue that stops waits for all of its running jobs, so that none of them runs again", async () => {
  const started = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const ended: string[] = [];
  const stop = await start({
    async deliver_webhooks(payload) {
      const { at } = payload as { at: string };
      started[at === "long" ? 0 : 1]?.resolve();
      await Bun.sleep(at === "long" ? LONG_JOB_MS : 100);
      ended.push(at);
    },
  });
  for (const at of ["long", "short"]) await enqueue(sql, "deliver_webhooks", { at });
  await Promise.all(started.map(({ promise }) => promise));
  await stop();
  expect(ended).toEqual(["short", "long"]);
  expect(await sql`select from graphile_worker._private_jobs`).toHaveLength(0);
});

test("a job that fails is an error in the log, and is tried again", async () => {
  const lines: string[] = [];
  const failed = Promise.withResolvers<void>();
  const log = keepLines(lines);
  const stop = await start(
    {
      async deliver_webhooks() {
        failed.resolve();
        throw new Error("the receiver is gone");
      },
    },
    { ...log, warn: () => {} } as unknown as Log,
  );
  await enqueue(sql, "deliver_webhooks", {});
  await failed.promise;
  await stop();
  expect(lines.join("\n")).toContain("the receiver is gone");
  const [job] = await sql<{ attempts: number }[]>`select attempts from graphile_worker._private_jobs`;
  expect(job?.attempts).toBe(1);
});

test("a queue that lost its database runs jobs again soon after the database is back, and was restarted once", async () => {
  const lines: string[] = [];
  const ran = Promise.withResolvers<void>();
  const stop = await start({ deliver_webhooks: async () => ran.resolve() }, keepLines(lines));
  try {
    relay.cut();
    await Bun.sleep(OUTAGE_MS);
    relay.open(port);
    const backMs = performance.now();
    await enqueue(sql, "deliver_webhooks", {});
    await ran.promise;
    expect(performance.now() - backMs).toBeLessThan(RESTART_MAX_MS);
    expect(lines.filter((line) => line.startsWith("job queue lost its database"))).toHaveLength(1);
  } finally {
    await stop();
  }
});
