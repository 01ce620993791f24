/** Waiting for a row's outcome: when it is read, and that no notification is missed in between. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { notify, type Outcomes, openOutcomes } from "../../db/postgres/notifications.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { setBackClock } from "../support/set-back-clock.ts";

const TIMEOUT_MS = 45_000;
let db: TestDatabase;
let sql: Sql;
let outcomes: Outcomes;

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 3 });
  outcomes = await openOutcomes(sql);
});
afterAll(async () => {
  await outcomes?.close();
  await sql?.end({ timeout: 5 });
  await db?.drop();
});

/** A row whose outcome is there from its `readsUntilEnd`th read on. */
function openRow(readsUntilEnd: number) {
  const row = { reads: 0, read: async () => (++row.reads >= readsUntilEnd ? "over" : undefined) };
  return row;
}

test("a row is read immediately, and again after its notification", async () => {
  const row = openRow(2);
  const settled = outcomes.watch("one").settle(row.read, TIMEOUT_MS);
  expect(row.reads).toBe(1);
  await sql.begin((tx) => notify(tx, ["one"]));
  expect(await settled).toBe("over");
  expect(row.reads).toBe(2);
});

test("a row that was just stored is read only after its notification", async () => {
  const row = openRow(1);
  const settled = outcomes.watch("two").settle(row.read, TIMEOUT_MS, { isJustStored: true });
  expect(row.reads).toBe(0);
  await sql.begin((tx) => notify(tx, ["two"]));
  expect(await settled).toBe("over");
  expect(row.reads).toBe(1);
});

test("a notification that came before the wait for a stored row is not missed", async () => {
  const [early, late] = [outcomes.watch("three"), outcomes.watch("three, too")];
  const seen = outcomes.watch("three").settle(openRow(2).read, TIMEOUT_MS);
  await sql.begin((tx) => notify(tx, ["three"]));
  await seen;
  const settle = (watcher: typeof early, name: string) =>
    watcher.settle(async () => name, TIMEOUT_MS, { isJustStored: true });
  expect(await Promise.race([settle(late, "late"), settle(early, "early")])).toBe("early");
});

test("a stored row whose notification was lost is still read, at the latest when the wait ends", async () => {
  const [kept, short] = [openRow(1), openRow(1)];
  expect(await outcomes.watch("four").settle(kept.read, TIMEOUT_MS, { isJustStored: true })).toBe("over");
  expect(await outcomes.watch("five").settle(short.read, 0, { isJustStored: true })).toBe("over");
  expect([kept.reads, short.reads]).toEqual([1, 1]);
});

test("a row is read again after the interval that its waiter chose", async () => {
  const settle = (rereadMs: number, name: string) => {
    const row = openRow(2);
    return outcomes
      .watch(name)
      .settle(row.read, TIMEOUT_MS, { rereadMs })
      .then(() => name);
  };
  expect(await Promise.race([settle(TIMEOUT_MS / 2, "seldom"), settle(10, "often")])).toBe("often");
  const stored = openRow(1);
  const settled = outcomes
    .watch("stored")
    .settle(stored.read, TIMEOUT_MS, { isJustStored: true, rereadMs: 10 });
  expect(await Promise.race([settled, settle(TIMEOUT_MS / 2, "seldom, too")])).toBe("over");
});

test("a wait ends in time even if the clock was set back meanwhile", async () => {
  const settled = outcomes.watch("four").settle(openRow(1_000).read, 300);
  const setForward = setBackClock();
  try {
    expect(await settled).toBeUndefined();
  } finally {
    setForward();
  }
}, 120_000);
