/** Statements of a transaction sent side by side: when one fails the others end with it, also what a branch sends only then. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import { openDatabase, type Sql, type Tx } from "../../db/postgres/client.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";

/** How much later than the failure a branch goes on: some of these are after the ROLLBACK was sent. */
const DELAYS = [0, 1, 2, 3, 4, 5, 6, 8, 10, 15, 20];
let db: TestDatabase;
let sql: Sql;
let reader: Sql;

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "one", maxConnections: 1 });
  reader = openDatabase(db.url, { name: "reader", maxConnections: 1 });
  await reader`create table notes (text text)`;
});
beforeEach(() => reader`truncate notes`.then(() => undefined));
afterAll(async () => {
  await Promise.all([sql, reader].map((one) => one.end({ timeout: 1 })));
  await db.drop();
});

async function goOn(tx: Tx, delay: number): Promise<string> {
  await tx`select 1`;
  for (let tick = 0; tick < delay; tick++) await undefined;
  return tx`insert into notes values ('outside')`.then(
    () => "stored",
    (error: { code?: string }) => error.code ?? String(error),
  );
}

async function divide(tx: Tx): Promise<string> {
  await tx`select 1 / ${0}::int`;
  return "divided";
}

test("behavior: a branch that continues next to a failed one writes nothing, at any time", async () => {
  for (const delay of DELAYS) {
    const ends: Promise<string>[] = [];
    const work = sql.begin(async (tx) => {
      ends.push(goOn(tx, delay));
      await Promise.all([...ends, divide(tx)]);
    });
    await expect(work).rejects.toThrow("division by zero");
    expect(["25P02", "TRANSACTION_ENDED"]).toContain((await ends[0]) ?? "");
    // the pool's only connection, after everything that was sent on it
    expect(await sql`select text from notes`).toEqual([] as never);
  }
});

test("behavior: the same next to our own error, which Postgres never saw", async () => {
  const { promise: isOver, resolve: end } = Promise.withResolvers<void>();
  let late: Promise<string> | undefined;
  const work = sql.begin(async (tx) => {
    late = isOver.then(() => goOn(tx, 0)).catch((error: { code?: string }) => error.code ?? String(error));
    await tx`insert into notes values ('inside')`;
    throw new Error("ours");
  });
  await expect(work).rejects.toThrow("ours");
  end();
  expect(await late).toBe("TRANSACTION_ENDED");
  expect(await reader`select text from notes`).toHaveLength(0);
});

test("behavior: statements sent after the commit are refused, and those sent before are included", async () => {
  const { promise: isOver, resolve: end } = Promise.withResolvers<void>();
  let late: Promise<string> | undefined;
  await sql.begin(async (tx) => {
    late = isOver.then(() => goOn(tx, 0)).catch((error: { code?: string }) => error.code ?? String(error));
    await Promise.all([tx`insert into notes values ('a')`, tx`insert into notes values ('b')`]);
  });
  end();
  expect(await late).toBe("TRANSACTION_ENDED");
  expect(await reader`select text from notes order by text`).toEqual([{ text: "a" }, { text: "b" }] as never);
});
