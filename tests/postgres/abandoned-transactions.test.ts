/** A client that stopped within a statement keeps rows from nobody for long. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { ABANDONED_AFTER_S, endAbandonedTransactions } from "../../db/postgres/abandoned-transactions.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { startDatabaseWay } from "../support/database-way.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";

setDefaultTimeout(120_000);
const WAIT_MS = 90_000;

let db: TestDatabase;
let sql: Sql;
beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 3 });
  await sql`create table held (id integer primary key)`;
  await sql`insert into held values (1)`;
});
afterAll(async () => {
  await sql.end({ timeout: 5 });
  await db.drop();
});

async function until(isTrue: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + WAIT_MS;
  while (!(await isTrue())) {
    if (Date.now() > deadline) throw new Error("the condition did not become true in time");
    await Bun.sleep(20);
  }
}

const countWaiting = async () =>
  (await sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`)
    .length;

/** Locks the row, then sends a statement of which only the first message arrives. */
function stopWithinStatement() {
  const way = startDatabaseWay(db.url);
  const client = openDatabase(way.url, { name: "stopped", maxConnections: 1, silenceTimeoutS: 0 });
  const outcome = client
    .begin(async (tx) => {
      await tx`select from held where id = 1 for update`;
      way.cutWhen(() => new Promise(() => undefined));
      await tx`select count(*) from held where id > ${0}`;
    })
    .then(
      () => "committed",
      () => "ended",
    );
  const isWaiting = async () => {
    const rows = await sql`
      select from pg_stat_activity
      where application_name = 'stopped' and (state, wait_event) = ('active', 'ClientRead')`;
    return rows.length > 0;
  };
  const close = async () => {
    way.stop();
    await client.end({ timeout: 1 });
    return outcome;
  };
  return { isWaiting, close };
}

test("an abandoned transaction is ended once others wait for it and its time is over", async () => {
  const stopped = stopWithinStatement();
  await until(stopped.isWaiting);
  // nobody waits for it
  expect(await endAbandonedTransactions(sql, 0)).toBe(0);
  const update = sql`update held set id = 1 where id = 1`.then(() => "done");
  await until(async () => (await countWaiting()) > 0);
  expect(await endAbandonedTransactions(sql, ABANDONED_AFTER_S * 100)).toBe(0);
  expect(await endAbandonedTransactions(sql, 0)).toBe(1);
  expect(await update).toBe("done");
  expect(await stopped.close()).toBe("ended");
});

test("a transaction that is idle between two statements, or active, is left to its client", async () => {
  const worker = openDatabase(db.url, { name: "working", maxConnections: 1 });
  const go = Promise.withResolvers<void>();
  const holding = worker.begin(async (tx) => {
    await tx`select from held where id = 1 for update`;
    await go.promise;
    return "committed";
  });
  await until(async () => (await sql`select from held for update skip locked`).length === 0);
  const update = sql`update held set id = 1 where id = 1`.then(() => "done");
  await until(async () => (await countWaiting()) > 0);
  expect(await endAbandonedTransactions(sql, 0)).toBe(0);
  go.resolve();
  expect([await holding, await update]).toEqual(["committed", "done"]);
  await worker.end({ timeout: 5 });
});
