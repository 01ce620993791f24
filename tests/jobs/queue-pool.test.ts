/** What graphile-worker does to a pool when a connection is lost while a runner stops. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { QueuePool } from "../../worker/jobs/queue-pool.ts";
import { createEmptyDatabase, type TestDatabase } from "../support/postgres.ts";

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

test("a client that is released twice is released once", async () => {
  const release = await new Promise<() => void>((resolve, reject) =>
    pool.connect((error, _client, done) => (error ? reject(error) : resolve(done))),
  );
  release();
  expect(pool.idleCount).toBe(1);
  expect(release).not.toThrow();
  expect([pool.idleCount, pool.totalCount]).toEqual([1, 1]);
});

test("a client without a callback, and one after the other", async () => {
  for (let n = 0; n < 3; n++) {
    const client = await pool.connect();
    const { rows } = await client.query("select 1 as one");
    expect(rows).toEqual([{ one: 1 }]);
    client.release();
  }
  expect(pool.totalCount).toBe(1);
});
