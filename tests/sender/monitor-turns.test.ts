/** Of several workers one monitors a network, until it stops coming back. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { endMonitorTurn, takeMonitorTurn } from "../../db/relays/monitor-turn.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";

const NETWORK = "base-sepolia";
const leaseMs = 60_000;
const first = { network: NETWORK, holder: "first" } as const;
const second = { network: NETWORK, holder: "second" } as const;
let db: TestDatabase;
let sql: Sql;

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 8 });
});
beforeEach(async () => {
  await sql`delete from monitor_turns`;
});
afterAll(async () => {
  await sql?.end({ timeout: 5 });
  await db?.drop();
});

const take = (turn: typeof first | typeof second) => takeMonitorTurn(sql, { ...turn, leaseMs });

test("whoever has the turn keeps it, and another waits", async () => {
  expect(await take(first)).toBe(true);
  expect(await take(second)).toBe(false);
  expect(await take(first)).toBe(true);
  expect(await takeMonitorTurn(sql, { network: "base", holder: "second", leaseMs })).toBe(true);
});

test("a turn that was not extended is another's, and is not taken back", async () => {
  await take(first);
  await sql`update monitor_turns set until = now()`;
  expect(await take(second)).toBe(true);
  expect(await take(first)).toBe(false);
});

test("an ended turn is another's at once; only its holder ends it", async () => {
  await take(first);
  await endMonitorTurn(sql, second);
  expect(await take(second)).toBe(false);
  await endMonitorTurn(sql, first);
  expect(await take(second)).toBe(true);
});

test("of workers that ask for a free turn at the same moment one has it", async () => {
  for (let round = 0; round < 20; round++) {
    await sql`update monitor_turns set until = now()`;
    const holders = Array.from({ length: 8 }, (_, n) => `${round}:${n}`);
    const taken = await Promise.all(
      holders.map((holder) => takeMonitorTurn(sql, { network: NETWORK, holder, leaseMs })),
    );
    expect(taken.filter(Boolean)).toHaveLength(1);
  }
});
