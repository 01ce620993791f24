/** What graphile-worker does to a pool when a connection is lost while a runner stops, and what the loss does. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { openDatabase } from "../../db/postgres/client.ts";
import { QueuePool } from "../../worker/jobs/queue-pool.ts";
import { createEmptyDatabase, type TestDatabase } from "../support/postgres.ts";
import { waitFor } from "../support/relay-lab.ts";

let db: TestDatabase;
let pool: QueuePool;
beforeAll(async () => {
  db = await createEmptyDatabase();
  pool = new QueuePool({ connectionString: db.url, max: 2 });
});
afterAll(async () => {
  await pool?.end();
  await db?.drop();
});

test("a client that is released twice is released only once", async () => {
  const release = await new Promise<() => void>((resolve, reject) =>
    pool.connect((error, _client, done) => (error ? reject(error) : resolve(done))),
  );
  release();
  expect(pool.idleCount).toBe(1);
  expect(release).not.toThrow();
  expect([pool.idleCount, pool.totalCount]).toEqual([1, 1]);
});

test("clients without a callback are served one after the other", async () => {
  for (let n = 0; n < 3; n++) {
    const client = await pool.connect();
    const { rows } = await client.query("select 1 as one");
    expect(rows).toEqual([{ one: 1 }]);
    client.release();
  }
  expect(pool.totalCount).toBe(1);
});

test("a connection lost while idle, in use or while the pool ends causes no uncaught error", async () => {
  const lost: Error[] = [];
  const watched = new QueuePool({ connectionString: db.url, max: 2 }, (error) => lost.push(error));
  const [used, idle] = await Promise.all([watched.connect(), watched.connect()]);
  const ended = new Promise<void>((resolve) => used.once("end", resolve));
  idle.release();
  await terminateAll();
  await ended;
  await expect(used.query("select 1")).rejects.toThrow();
  used.release();
  await waitFor("the loss of the idle one", async () => lost.length > 0);
  expect(lost).toHaveLength(1);
  const again = await watched.connect();
  again.release();
  await Promise.all([watched.end(), terminateAll()]);
  const silent = new QueuePool({ connectionString: db.url, max: 1 });
  expect(silent.emit("error", new Error("an idle client is lost"))).toBe(true);
  await silent.end();
});

async function terminateAll(): Promise<void> {
  const admin = openDatabase(db.url, { name: "admin", maxConnections: 1 });
  await admin`
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()`;
  await admin.end({ timeout: 1 });
}
