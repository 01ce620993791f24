/** Whether a period has more movements than a statement holds: as its rows say, and mostly without reading them. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { hasMoreMovements } from "../../db/exports/count-movements.ts";
import { sumMovements } from "../../db/exports/statements.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { countRowsRead } from "../support/rows-read.ts";
import { type SeededMerchant, seedMerchant } from "../support/seed.ts";
import { type GivenRow, insertHistory } from "../transactions/history.ts";

const NETWORK = "base-sepolia";
const HOUR_MS = 3_600_000;
const START = Date.parse("2026-06-01T00:00:00Z");
const at = (hours: number) => new Date(START + hours * HOUR_MS);
/** Movements are half an hour apart, for ten days. */
const A_DAY = 48;

let db: TestDatabase;
let sql: Sql;
let merchant: SeededMerchant;

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 2 });
  merchant = await seedMerchant(sql);
  const types = ["RECEIVE", "SEND", "PAYMENT_LINK"] as const;
  const movements = Array.from({ length: 10 * A_DAY }, (_, n) => ({
    type: types[n % types.length],
    detectedAt: at(n / 2),
  }));
  const others: GivenRow[] = [
    { status: "DETECTED" },
    { status: "FAILED", type: "SEND" },
    { network: "base" },
  ];
  await insertHistory(sql, merchant.userId, [
    ...movements,
    ...others.map((row) => ({ ...row, detectedAt: at(30) })),
  ] as GivenRow[]);
  await insertHistory(sql, (await seedMerchant(sql)).userId, [{ detectedAt: at(30) }]);
});
afterAll(async () => {
  await sql?.end();
  await db?.drop();
});

const period = (from: number, before: number) =>
  ({ userId: merchant.userId, network: NETWORK, from: at(from), before: at(before) }) as const;

/** [from, before, movements], hours since the first movement. */
const PERIODS: [string, number, number, number][] = [
  ["whole days", 24, 72, 96],
  ["days that begin earlier", 22, 70, 96],
  ["days that begin later", 5.5, 53.5, 96],
  ["a part of a day", 30, 33, 6],
  ["a part of two days", 20, 28, 16],
  ["whole days and a part of one without movements", 23.75, 72, 96],
  ["more than all", -100, 1_000, 480],
  ["nothing", 400, 500, 0],
];
for (const [name, from, before, count] of PERIODS)
  test(`the number of movements equals that of the rows: ${name}`, async () => {
    const totals = await sumMovements(sql, period(from, before));
    expect(totals.reduce((sum, total) => sum + total.count, 0)).toBe(count);
    for (const [max, isMore] of [
      [0, count > 0],
      [count - 1, true],
      [count, false],
      [count + 1, false],
      [1_000, false],
    ] as const)
      expect(await hasMoreMovements(sql, period(from, before), max)).toBe(isMore);
  });

const rowsRead = (from: number, before: number, max: number) =>
  countRowsRead(sql, "transactions", (tx) => hasMoreMovements(tx, period(from, before), max));

test("a clear result is decided without reading a row, an unclear one by the rows of two days", async () => {
  // from the 2nd hour of the first day to the 22nd of the last
  expect(await rowsRead(2, 238, 10 * A_DAY)).toBe(0);
  expect(await rowsRead(2, 238, 8 * A_DAY - 1)).toBe(0);
  expect(await rowsRead(24, 216, 8 * A_DAY)).toBe(0);
  expect(await rowsRead(24, 216, 8 * A_DAY - 1)).toBe(0);
  const unclear = await rowsRead(2, 238, 9 * A_DAY);
  expect(unclear).toBeGreaterThan(0);
  expect(unclear).toBeLessThanOrEqual(A_DAY);
});
