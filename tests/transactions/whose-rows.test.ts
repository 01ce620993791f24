/** Every way to read a history gives its user's own rows, those of the filter, and all of them: also what is open, and after folding. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { NO_FILTER, type TransactionFilter } from "../../core/domain/transaction.ts";
import { foldTransactionCounts } from "../../db/jobs/fold-count-deltas.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { readSettledCells } from "../../db/transactions/counts.ts";
import { sumReceivedByDay } from "../../db/transactions/received-by-day.ts";
import { listLargeHistory } from "../../db/transactions/search.ts";
import { sumTransactions } from "../../db/transactions/summary.ts";
import {
  countChosen,
  findPosition,
  findTransaction,
  listTransactions,
} from "../../db/transactions/transactions.ts";
import { accepted, type BooksLab, openBooks } from "../support/ledger-lab.ts";
import { type SeededMerchant, seedLink, seedMerchant } from "../support/seed.ts";
import { type GivenRow, insertHistory } from "./history.ts";

const DAY_MS = 86_400_000;
const NOON = new Date("2026-06-15T12:00:00Z");
const day = (count: number) => new Date(NOON.getTime() + count * DAY_MS);

type Row = Required<Pick<GivenRow, "type" | "status" | "network" | "amountUnits" | "description">> & {
  detectedAt: Date;
};

const ROWS: readonly Row[] = (["SEND", "RECEIVE", "PAYMENT_LINK"] as const).flatMap((type, index) =>
  (["PENDING", "DETECTED", "CONFIRMED", "FAILED", "ORPHANED"] as const).flatMap((status, place) =>
    (["base", "base-sepolia"] as const).map((network, other) => ({
      ...{ type, status, network, amountUnits: BigInt(10 ** index + place * 7 + other) * 10_000n },
      ...{ description: `order ${type.toLowerCase()} ${place}`, detectedAt: day(place - 2 + index * 10) },
    })),
  ),
);

let lab: BooksLab;
let sql: Sql;
let user: SeededMerchant;
let stranger: SeededMerchant;
let ids: string[];

beforeAll(async () => {
  lab = await openBooks();
  ({ sql } = lab);
  [user, stranger] = [await seedMerchant(sql), await seedMerchant(sql)];
  ids = await insertHistory(sql, user.userId, ROWS);
  // as many in the same cells, days and amounts
  for (let count = 0; count < 2; count++) await insertHistory(sql, stranger.userId, ROWS);
});
afterAll(() => lab?.stop());

const filters: [string, Partial<TransactionFilter>, (row: Row) => boolean][] = [
  ["everything", {}, () => true],
  ["a type", { types: ["SEND"] }, ({ type }) => type === "SEND"],
  ["a status", { statuses: ["CONFIRMED"] }, ({ status }) => status === "CONFIRMED"],
  ["what is pending", { statuses: ["PENDING"] }, ({ status }) => status === "PENDING"],
  ["a network", { networks: ["base"] }, ({ network }) => network === "base"],
  [
    "a type, two statuses and a network",
    { types: ["RECEIVE"], statuses: ["PENDING", "FAILED"], networks: ["base"] },
    ({ type, status, network }) =>
      type === "RECEIVE" && ["PENDING", "FAILED"].includes(status) && network === "base",
  ],
  [
    "dates",
    { from: day(-1), before: day(9) },
    ({ detectedAt }) => detectedAt >= day(-1) && detectedAt < day(9),
  ],
  ["what is older", { before: day(1) }, ({ detectedAt }) => detectedAt < day(1)],
  ["what is newer", { from: day(9) }, ({ detectedAt }) => detectedAt >= day(9)],
  [
    "a moment to a moment",
    { from: new Date(day(0).getTime() + 1), before: new Date(day(2).getTime() + 1) },
    ({ detectedAt }) => detectedAt > day(0) && detectedAt <= day(2),
  ],
  [
    "amounts",
    { minUnits: 90_000n, maxUnits: 300_000n },
    ({ amountUnits }) => amountUnits >= 90_000n && amountUnits <= 300_000n,
  ],
  ["amounts from one on", { minUnits: 150_000n }, ({ amountUnits }) => amountUnits >= 150_000n],
  [
    "amounts up to one that a counter does not end at",
    { maxUnits: 10_050n },
    ({ amountUnits }) => amountUnits <= 10_050n,
  ],
  [
    "amounts and a status",
    { minUnits: 90_000n, statuses: ["CONFIRMED"] },
    ({ amountUnits, status }) => amountUnits >= 90_000n && status === "CONFIRMED",
  ],
  [
    "amounts between dates",
    { maxUnits: 300_000n, from: day(-1), before: day(9) },
    ({ amountUnits, detectedAt }) => amountUnits <= 300_000n && detectedAt >= day(-1) && detectedAt < day(9),
  ],
  ["a text", { search: "order send" }, ({ type }) => type === "SEND"],
  [
    "a text among types and dates",
    { search: "order", types: ["SEND", "RECEIVE"], before: day(5) },
    ({ type, detectedAt }) => type !== "PAYMENT_LINK" && detectedAt < day(5),
  ],
];

function expectAll() {
  test.each(filters)("%s", async (_, given, chooses) => {
    const filter: TransactionFilter = { ...NO_FILTER, ...given };
    const expected = ids.filter((__, index) => chooses(ROWS[index] as Row)).sort();
    const chosen = ROWS.filter(chooses);
    await sql.begin("isolation level repeatable read", async (tx) => {
      const { rows, total } = await listTransactions(tx, user.userId, filter, { limit: 100, offset: 0 });
      expect(rows.map(({ id }) => id).sort()).toEqual(expected);
      expect(total).toBe(expected.length);
      expect(await countChosen(tx, user.userId, filter)).toBe(expected.length);
      const cells = await readSettledCells(tx, user.userId, NO_FILTER);
      const large = await listLargeHistory(tx, user.userId, filter, { limit: 100, offset: 0, cells });
      expect(large.rows.map(({ id }) => id).sort()).toEqual(expected);
      const sums = await sumTransactions(tx, user.userId, filter);
      expect(sums.reduce((sum, { units }) => sum + units, 0n)).toBe(
        chosen.reduce((sum, { amountUnits }) => sum + amountUnits, 0n),
      );
      expect(sums.reduce((sum, { count }) => sum + count, 0n)).toBe(BigInt(chosen.length));
    });
  });
}

describe("the history before its counters are folded is read by", expectAll);

describe("the history after its counters are folded is read by", () => {
  beforeAll(async () => {
    expect(await sql.begin((tx) => foldTransactionCounts(tx, 10_000))).toBeGreaterThan(0);
  });
  expectAll();
});

test("a row is found by its id, only by its own user", async () => {
  const [id = ""] = ids;
  for (const read of [findTransaction, findPosition]) {
    expect(await read(sql, { id, userId: user.userId })).toMatchObject({ id });
    expect(await read(sql, { id, userId: stranger.userId })).toBeUndefined();
    expect(await read(sql, { id: "txn_none", userId: user.userId })).toBeUndefined();
  }
});

test("an open payment is found by its id, only by its own merchant", async () => {
  const payments = [];
  for (let count = 0; count < 3; count++)
    payments.push(await accepted(lab, await seedLink(sql, lab.merchant)));
  const page = await listTransactions(sql, lab.merchant.userId, NO_FILTER, { limit: 10, offset: 0 });
  expect(page.rows.map(({ paymentId }) => paymentId).sort()).toEqual(payments.map(({ id }) => id).sort());
  const pending: TransactionFilter = { ...NO_FILTER, statuses: ["PENDING"] };
  const large = await listLargeHistory(sql, lab.merchant.userId, pending, {
    limit: 10,
    offset: 0,
    cells: [],
  });
  expect(large.rows.map(({ id }) => id)).toEqual(page.rows.map(({ id }) => id));
  const [row] = page.rows;
  const id = row?.id ?? "";
  for (const read of [findTransaction, findPosition]) {
    expect(await read(sql, { id, userId: lab.merchant.userId })).toMatchObject({ id });
    expect(await read(sql, { id, userId: stranger.userId })).toBeUndefined();
  }
  expect(
    (await listTransactions(sql, stranger.userId, NO_FILTER, { limit: 100, offset: 0 })).rows,
  ).toHaveLength(2 * ROWS.length);
});

test("the amounts received by day are confirmed, incoming, recent, and the user's own", async () => {
  const merchant = await seedMerchant(sql);
  const now = new Date();
  const received = { detectedAt: now, amountUnits: 3n };
  await insertHistory(sql, merchant.userId, [
    received,
    { ...received, type: "PAYMENT_LINK" },
    { ...received, type: "SEND" },
    { ...received, status: "DETECTED" },
    { ...received, status: "PENDING" },
    { ...received, detectedAt: new Date(now.getTime() - 3 * DAY_MS) },
  ]);
  await insertHistory(sql, stranger.userId, [received]);
  const days = await sumReceivedByDay(sql, merchant.userId, { days: 2, timeZone: "UTC" });
  expect(days.map(({ network, units, count }) => [network, units, count])).toEqual([
    ["base", 0n, 0],
    ["base", 0n, 0],
    ["base-sepolia", 0n, 0],
    ["base-sepolia", 6n, 2],
  ]);
});
