/** Which movements, balances and rates a merchant's books hold, of which period: the conditions of the statements, one by one. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { newExportId, newSendId } from "../../core/domain/ids.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { NO_FILTER } from "../../core/domain/transaction.ts";
import {
  countOwnRates,
  listOwnRates,
  listPublishedRates,
  pageOwnRates,
  setOwnRates,
  storeRates,
  takeSourceTurn,
} from "../../db/exports/exchange-rates.ts";
import { insertExport } from "../../db/exports/exports.ts";
import { lockMerchantBooks, updateMerchantBooks } from "../../db/exports/merchant-books.ts";
import {
  findClosingBalance,
  findLastStatementMonth,
  findLedgerEnd,
  findStatementEnd,
  insertMonthlyStatement,
  listMonthlyStatements,
  listMonthlyWallets,
  recordClosingBalance,
  setStatementFiles,
  sumMovements,
  sumOpening,
  takeReadyStatements,
} from "../../db/exports/statements.ts";
import { listDayRates } from "../../db/exports/valuation.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { insertOperation } from "../../db/wallet-ops/operations.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { type SeededMerchant, seedMerchant } from "../support/seed.ts";
import { type GivenRow, insertHistory } from "../transactions/history.ts";

const NETWORK = "base-sepolia";
const FROM = new Date("2026-06-01T00:00:00Z");
const BEFORE = new Date("2026-07-01T00:00:00Z");
const INSIDE = new Date("2026-06-15T12:00:00Z");

let db: TestDatabase;
let sql: Sql;
let merchant: SeededMerchant;
let stranger: SeededMerchant;

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 2 });
});
afterAll(async () => {
  await sql?.end();
  await db?.drop();
});
beforeEach(async () => {
  [merchant, stranger] = [await seedMerchant(sql), await seedMerchant(sql)];
});

const hash = (): Hex => `0x${randomBytes(32).toString("hex")}`;
const book = (rows: readonly GivenRow[], of = merchant) =>
  insertHistory(
    sql,
    of.userId,
    rows.map((row) => ({ detectedAt: INSIDE, ...row })),
  );

/** The rows are the two items of one send, the second its fee. */
async function bindSend({ userId, walletId, address }: SeededMerchant, rows: { sent: string; fee: string }) {
  const id = newSendId(new Date());
  const item = { to: address, amountUnits: 1n, note: "" };
  await insertOperation(sql, {
    ...{ id, userId, walletId, network: NETWORK, kind: "SEND", userOpHash: hash(), accountNonce: 0n },
    ...{ callData: "0x", callGas: 1n, verificationGas: 1n, challengeId: "ch_1", idempotencyKey: undefined },
    ...{ request: id, requestId: "req_1", lifeMs: 600_000, renews: false },
    terms: { owners: [], warnings: [], balanceAfter: "0", deploysWallet: false },
    items: [
      { ...item, isFee: false },
      { ...item, isFee: true },
    ],
  });
  for (const [isFee, row] of [
    [false, rows.sent],
    [true, rows.fee],
  ] as const)
    await sql`
      update transactions
      set operation_item_id = (select id from wallet_operation_items where operation_id = ${id} and is_fee = ${isFee})
      where id = ${row}`;
}

describe("a statement", () => {
  const period = () => ({ userId: merchant.userId, network: NETWORK, from: FROM, before: BEFORE }) as const;

  test("sums the confirmed movements of its own wallet in its period, by kind", async () => {
    await book([
      { type: "RECEIVE", amountUnits: 1n },
      { type: "PAYMENT_LINK", amountUnits: 2n, detectedAt: FROM },
      { type: "SEND", amountUnits: 3n, detectedAt: new Date(BEFORE.getTime() - 1) },
      { type: "RECEIVE", amountUnits: 10n, detectedAt: new Date(FROM.getTime() - 1) },
      { type: "RECEIVE", amountUnits: 10n, detectedAt: BEFORE },
      { type: "RECEIVE", amountUnits: 10n, network: "base" },
      { type: "RECEIVE", amountUnits: 10n, status: "DETECTED" },
      { type: "SEND", amountUnits: 10n, status: "FAILED" },
      { type: "SEND", amountUnits: 10n, status: "PENDING" },
    ]);
    const [refund = ""] = await book([{ type: "SEND", amountUnits: 4n }]);
    await sql`update transactions set operation_id = 'rfd_1' where id = ${refund}`;
    const [sent = "", fee = ""] = await book([
      { type: "SEND", amountUnits: 5n },
      { type: "SEND", amountUnits: 6n },
    ]);
    await bindSend(merchant, { sent, fee });
    await book([{ type: "RECEIVE", amountUnits: 10n }], stranger);
    const sums = await sumMovements(sql, period());
    expect(Object.fromEntries(sums.map(({ kind, units }) => [kind, units]))).toEqual({
      ...{ PAYMENT: 2n, RECEIVE: 1n, REFUND: 4n, SEND: 8n, FEE: 6n },
    });
  });

  test("opens with the balance at which the wallet was first followed, and what moved before the period", async () => {
    const opening = (units: bigint, { walletId }: { walletId: string }) =>
      sql`update wallets set opening_units = ${units} where id = ${walletId}`;
    await opening(100n, merchant);
    await opening(9_000n, stranger);
    const earlier = new Date(FROM.getTime() - 1);
    await book([
      { type: "RECEIVE", amountUnits: 5n, detectedAt: earlier },
      { type: "SEND", amountUnits: 2n, detectedAt: earlier },
      { type: "RECEIVE", amountUnits: 50n, detectedAt: FROM },
      { type: "RECEIVE", amountUnits: 50n, detectedAt: earlier, status: "DETECTED" },
      { type: "RECEIVE", amountUnits: 50n, detectedAt: earlier, network: "base" },
    ]);
    await book([{ type: "RECEIVE", amountUnits: 50n, detectedAt: earlier }], stranger);
    expect(await sumOpening(sql, period())).toBe(103n);
    expect(await sumOpening(sql, { ...period(), network: "base" })).toBe(50n);
  });

  test("closes with the balance of its own wallet at its own end, as last read", async () => {
    const record = (walletId: string, endsAt: Date, balanceUnits: bigint) =>
      recordClosingBalance(sql, {
        ...{ walletId, endsAt, balanceUnits, blockNumber: 1n, blockHash: hash() },
        blockTime: new Date(endsAt.getTime() - 1_000),
      });
    await record(merchant.walletId, FROM, 1n);
    await record(merchant.walletId, BEFORE, 2n);
    await record(merchant.walletId, BEFORE, 3n);
    await record(stranger.walletId, BEFORE, 4n);
    const find = async (walletId: string, endsAt: Date) =>
      (await findClosingBalance(sql, walletId, endsAt))?.balanceUnits;
    expect(await find(merchant.walletId, FROM)).toBe(1n);
    expect(await find(merchant.walletId, BEFORE)).toBe(3n);
    expect(await find(stranger.walletId, FROM)).toBeUndefined();
  });

  test("is final up to the deep blocks, and before the first movement that is not yet confirmed", async () => {
    await sql`delete from cursors`;
    await sql`insert into cursors (network, number, hash, head_number) values (${NETWORK}, 10, ${hash()}, 10)`;
    await sql`insert into cursors (network, number, hash, head_number) values ('base', 50, ${hash()}, 50)`;
    const block = (network: string, number: number, time: string) => sql`
      insert into blocks ${sql({ network, number, hash: hash(), parent_hash: "0x", block_time: time })}`;
    await block(NETWORK, 7, "2026-06-10T00:00:00Z");
    await block(NETWORK, 8, "2026-06-11T00:00:00Z");
    await block("base", 8, "2026-06-20T00:00:00Z");
    const end = async (confirmations = 2) =>
      findLedgerEnd(sql, { userId: merchant.userId, network: NETWORK, confirmations });
    expect(await end()).toEqual({
      number: 10,
      confirmedBefore: new Date("2026-06-11T00:00:01Z"),
      recheckedBefore: null,
      isWhole: false,
    });
    await sql`update cursors set rechecked_number = case network when ${NETWORK} then 7 else 50 end`;
    expect(await end()).toMatchObject({ recheckedBefore: new Date("2026-06-10T00:00:01Z") });
    await block("base", 9, "2026-06-20T00:00:00Z");
    await sql`update cursors set rechecked_number = 9`;
    expect(await end()).toMatchObject({ recheckedBefore: new Date("2026-06-11T00:00:01Z") });
    const read = (columns: Record<string, Date | string | null>, of = merchant) =>
      sql`update wallets set ${sql(columns)} where id = ${of.walletId}`;
    await read({ backfilled_at: new Date(), opening_units: "0" }, stranger);
    await sql`
      insert into wallets (id, user_id, network, address, passkey_id, factory, owners, backfilled_at, opening_units)
      select id || 'base', user_id, 'base', address, passkey_id, factory, owners, now(), 0
      from wallets
      where id = ${merchant.walletId}`;
    await read({ backfilled_at: new Date(), opening_units: null });
    expect(await end()).toMatchObject({ isWhole: false });
    await read({ backfilled_at: null, opening_units: "0" });
    expect(await end()).toMatchObject({ isWhole: false });
    await read({ backfilled_at: new Date() });
    expect(await end()).toMatchObject({ isWhole: true });
    expect(await end(3)).toMatchObject({ confirmedBefore: new Date("2026-06-10T00:00:01Z") });
    const detectedAt = new Date("2026-06-05T00:00:00Z");
    await book([{ status: "DETECTED", detectedAt }], stranger);
    await book([
      { status: "DETECTED", detectedAt, network: "base" },
      { status: "CONFIRMED", detectedAt },
    ]);
    expect(await end()).toMatchObject({ confirmedBefore: new Date("2026-06-11T00:00:01Z") });
    for (const type of ["SEND", "PAYMENT_LINK", "RECEIVE"] as const) {
      const [id = ""] = await book([{ type, status: "DETECTED", detectedAt }]);
      expect(await end()).toMatchObject({ confirmedBefore: detectedAt });
      await sql`delete from transactions where id = ${id}`;
    }
    expect(await end(9)).toBeUndefined();
  });
});

describe("a monthly statement", () => {
  const MONTH = "2026-05";
  const make = ({ walletId, userId }: SeededMerchant, month = MONTH) =>
    insertMonthlyStatement(sql, { walletId, userId, month });

  async function files({ userId, walletId }: SeededMerchant, month = MONTH, before = BEFORE) {
    const request = { filter: NO_FILTER, profile: "statement", timeZone: "UTC" } as const;
    const statement = { network: NETWORK, from: FROM, before } as const;
    const [pdfExportId, csvExportId] = [newExportId(), newExportId()];
    for (const [id, format] of [
      [pdfExportId, "pdf"],
      [csvExportId, "csv"],
    ] as const)
      await insertExport(sql, {
        id,
        userId,
        format,
        requestId: null,
        request: { ...request, statement } as never,
      });
    await setStatementFiles(sql, { walletId, month }, { pdfExportId, csvExportId });
    return [pdfExportId, csvExportId] as const;
  }
  const ready = (...ids: string[]) => sql`update exports set status = 'READY' where id = any(${ids}::text[])`;

  test("is made for wallets of merchants who want it", async () => {
    await lockMerchantBooks(sql, merchant.userId);
    await updateMerchantBooks(sql, merchant.userId, { monthlyStatements: true });
    await lockMerchantBooks(sql, stranger.userId);
    await updateMerchantBooks(sql, stranger.userId, { monthlyStatements: false });
    const listed = async (afterId = "") =>
      (await listMonthlyWallets(sql, afterId, 1_000)).map(({ id }) => id);
    expect(await listed()).toContain(merchant.walletId);
    expect(await listed()).not.toContain(stranger.walletId);
    expect(await listed(merchant.walletId)).not.toContain(merchant.walletId);
  });

  test("is created once per wallet and month, and ends where its own file says", async () => {
    expect([await make(merchant), await make(merchant), await make(merchant, "2026-04")]).toEqual([
      ...[true, false, true],
    ]);
    await make(stranger);
    expect(await findLastStatementMonth(sql, merchant.walletId)).toBe(MONTH);
    expect(await findLastStatementMonth(sql, stranger.walletId)).toBe(MONTH);
    const end = (of: SeededMerchant, month: string) => findStatementEnd(sql, of.walletId, month);
    expect(await end(merchant, MONTH)).toBeUndefined();
    await files(merchant, MONTH, BEFORE);
    await files(merchant, "2026-04", FROM);
    expect(await end(merchant, MONTH)).toEqual(BEFORE);
    expect(await end(merchant, "2026-04")).toEqual(FROM);
    expect(await end(stranger, MONTH)).toBeUndefined();
  });

  test("is listed to its own user, as ready once both files are, and is then announced once", async () => {
    for (const of of [merchant, stranger]) await make(of);
    const [pdf, csv] = await files(merchant);
    await ready(...(await files(stranger)));
    const status = async () =>
      (await listMonthlyStatements(sql, merchant.userId, 10)).map((row) => row.status);
    await seedMerchant(sql, { network: "base" });
    const announced = async () =>
      (await takeReadyStatements(sql, 10)).map(({ userId, network }) => {
        expect(network).toBe(NETWORK);
        return userId;
      });
    expect(await status()).toEqual(["IN_PROGRESS"]);
    expect(await announced()).toEqual([stranger.userId]);
    await ready(pdf);
    expect([await status(), await announced()]).toEqual([["IN_PROGRESS"], []]);
    await sql`update exports set status = 'QUEUED' where id = ${pdf}`;
    await ready(csv);
    expect([await status(), await announced()]).toEqual([["IN_PROGRESS"], []]);
    await ready(pdf);
    expect([await status(), await announced()]).toEqual([["READY"], [merchant.userId]]);
    expect(await announced()).toEqual([]);
  });
});

describe("rates", () => {
  const own = { currency: "EUR", from: "2026-06-01", to: "2026-06-03" };

  test("of a merchant are that merchant's own, for one currency and from a given day", async () => {
    const [mine, theirs] = [
      { ...own, userId: merchant.userId },
      { ...own, userId: stranger.userId },
    ];
    await setOwnRates(sql, mine, 10n);
    await setOwnRates(sql, theirs, 20n);
    await setOwnRates(sql, { ...mine, currency: "CHF" }, 30n);
    const list = async (of: typeof mine, from = "2026-06-02") =>
      (await listOwnRates(sql, { userId: of.userId, currency: "EUR", from })).map(({ day, rateE10 }) => [
        day,
        rateE10,
      ]);
    expect(await list(mine)).toEqual([
      ["2026-06-02", 10n],
      ["2026-06-03", 10n],
    ]);
    const page = (before?: string) =>
      pageOwnRates(sql, {
        userId: merchant.userId,
        currency: "EUR",
        limit: 10,
        ...(before ? { before } : {}),
      });
    expect(await page()).toMatchObject([{ firstDay: "2026-06-01", lastDay: "2026-06-03", rateE10: 10n }]);
    expect(await page("2026-06-02")).toMatchObject([{ firstDay: "2026-06-01", lastDay: "2026-06-01" }]);
    expect(await countOwnRates(sql, merchant.userId)).toEqual([
      { currency: "CHF", days: 3 },
      { currency: "EUR", days: 3 },
    ]);
    await setOwnRates(sql, { ...mine, from: "2026-06-02", to: "2026-06-02" }, undefined);
    expect((await list(mine, "2026-06-01")).map(([day]) => day)).toEqual(["2026-06-01", "2026-06-03"]);
    expect(await list(theirs, "2026-06-01")).toHaveLength(3);
    const choice = { currency: "EUR", source: "own", usdcRate: "par", isCorrected: false } as const;
    const valued = await listDayRates(sql, choice, { userId: merchant.userId, firstDay: "2026-06-01" });
    expect(valued.map(({ rateE10 }) => rateE10)).toEqual([10n, 10n]);
    expect(await countOwnRates(sql, merchant.userId)).toContainEqual({ currency: "CHF", days: 3 });
  });

  test("that were published first determine a day's value: a later number is a correction", async () => {
    const rate = (day: string, rateE10: bigint, currency = "USD", base = "EUR") => ({
      ...{ base, currency, day, rateE10 },
    });
    const store = (source: string, ...rates: ReturnType<typeof rate>[]) =>
      sql.begin((tx) => storeRates(tx, source, rates));
    const [first, correction] = [
      { first: 1, corrections: 0 },
      { first: 0, corrections: 1 },
    ];
    const ofOther = ["2026-05-20", "2026-06-01", "2026-06-02", "2026-06-30"].map((day) =>
      rate(day, 99n, "USD", "GBP"),
    );
    await store("other", ...ofOther);
    expect(await store("first", rate("2026-06-01", 1n), rate("2026-06-03", 3n))).toEqual({
      first: 2,
      corrections: 0,
    });
    expect(await store("first", rate("2026-06-01", 1n))).toEqual({ first: 0, corrections: 0 });
    expect(await store("first", rate("2026-06-01", 4n))).toEqual(correction);
    // valued by the day before until then
    expect(await store("first", rate("2026-06-02", 2n))).toEqual(correction);
    expect(await store("first", rate("2026-06-04", 5n))).toEqual(first);
    // valued by nothing: what comes before is too old, another source's or another currency's, or nothing has come after
    expect(await store("first", rate("2026-01-01", 7n))).toEqual(first);
    expect(await store("first", rate("2026-05-21", 7n))).toEqual(first);
    expect(await store("first", rate("2026-06-09", 7n, "GBP"))).toEqual(first);
    expect(await store("first", rate("2026-06-02", 7n, "GBP"))).toEqual(first);
    expect(await store("first", rate("2026-06-20", 7n))).toEqual(first);
    expect(await store("first", rate("2026-06-12", 7n, "GBP"))).toEqual(first);
    expect(await store("first", rate("2026-06-24", 7n))).toEqual(first);
    const list = async (isCorrected: boolean, from = "2026-06-01") => {
      const choice = { source: "first", currency: "USD", usdcRate: "par", isCorrected } as const;
      const rows = await listPublishedRates(sql, choice, { from });
      return rows.filter(({ day }) => day < "2026-06-20").map(({ day, rateE10 }) => [day, rateE10]);
    };
    expect(await list(false)).toEqual([
      ["2026-06-01", 1n],
      ["2026-06-03", 3n],
      ["2026-06-04", 5n],
    ]);
    expect(await list(true, "2026-06-02")).toEqual([
      ["2026-06-02", 2n],
      ["2026-06-03", 3n],
      ["2026-06-04", 5n],
    ]);
    expect((await list(true))[0]).toEqual(["2026-06-01", 4n]);
    await expect(store("first", { ...rate("2026-06-05", 1n), base: "GBP" })).rejects.toThrow("base");
  });

  test("are read by one process at a time, and again sooner after a failure", async () => {
    const take = () => takeSourceTurn(sql, "turns", { everyS: 100, retryS: 10 });
    const age = (seconds: number, given: object = {}) =>
      sql`
        update exchange_rate_sources
        set ${sql({ attempted_at: new Date(Date.now() - seconds * 1_000), ...given })}
        where source = 'turns'`;
    expect([await take(), await take()]).toEqual([true, false]);
    await age(11);
    expect(await take()).toBe(true);
    await age(11, { fetched_at: new Date() });
    expect(await take()).toBe(false);
    await age(11, { error: "failed" });
    expect(await take()).toBe(true);
    await age(101, { error: null });
    expect(await take()).toBe(true);
  });
});
