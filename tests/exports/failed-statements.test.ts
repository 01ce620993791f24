/** What becomes of a month whose file cannot be made: announced once, and retried unless it was refused. */
import { afterAll, beforeAll, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { openLog } from "../../core/runtime/log.ts";
import { refuseExport, startExport } from "../../db/exports/exports.ts";
import { lockMerchantBooks, updateMerchantBooks } from "../../db/exports/merchant-books.ts";
import { listMonthlyStatements, takeFailedStatements } from "../../db/exports/statements.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { openReader } from "../../db/postgres/replica.ts";
import { buildExport } from "../../worker/exports/build-export.ts";
import { closeMonths } from "../../worker/exports/statement/close-months.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { type SeededMerchant, seedMerchant } from "../support/seed.ts";

setDefaultTimeout(120_000);
const NETWORK = "base-sepolia" as const;
const AFTER_JUNE = new Date("2026-07-15T00:00:00Z");

let db: TestDatabase;
let sql: Sql;
let merchant: SeededMerchant;

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 8 });
  const [hash, parent, next] = ["11", "10", "12"].map((byte) => `0x${byte.repeat(32)}`);
  await sql`
    insert into blocks (network, number, hash, parent_hash, block_time)
    values (${NETWORK}, 90, ${hash ?? ""}, ${parent ?? ""}, '2026-08-02')`;
  await sql`
    insert into cursors (network, number, hash, head_number) values (${NETWORK}, 100, ${next ?? ""}, 100)`;
});
afterAll(async () => {
  await sql?.end({ timeout: 5 });
  await db?.drop();
});
beforeEach(async () => {
  await sql`delete from monthly_statements`;
  await sql`update merchant_books set monthly_statements = false`;
  merchant = await seedMerchant(sql, { network: NETWORK });
  const { userId, walletId } = merchant;
  await lockMerchantBooks(sql, userId);
  await updateMerchantBooks(sql, userId, { monthlyStatements: true });
  await sql`update merchant_books set monthly_since = '2026-06-10' where user_id = ${userId}`;
  await sql`
    update wallets
    set created_at = '2026-06-10', backfilled_at = now(), opening_units = 0
    where id = ${walletId}`;
  await closeMonths(deps(), AFTER_JUNE);
});

const deps = () => ({
  ...{ sql, chains: new Map(), proofChains: new Map(), log: openLog("test", "silent") },
  ...{ reader: openReader(sql, { replica: undefined, waitMs: 0 }), stop: new AbortController().signal },
  config: { chains: [{ id: NETWORK, rpcUrls: [], confirmations: 1 }] },
});
/** As the worker does every minute, again and again. */
async function minutes(): Promise<void> {
  for (let n = 0; n < 3; n++) await closeMonths(deps(), AFTER_JUNE);
}
const listed = async () => {
  const [row] = await listMonthlyStatements(sql, merchant.userId, 10);
  return row;
};
const notices = () =>
  sql<{ kind: string; details: object }[]>`
    select kind, details from notices where user_id = ${merchant.userId} order by id`;
async function fileOf(format: "pdf" | "csv"): Promise<string> {
  const [row] = await sql<{ id: string }[]>`
    select id from exports where user_id = ${merchant.userId} and format = ${format}`;
  return row?.id ?? "";
}
const statusOf = async (id: string) => {
  const [row] = await sql<{ status: string }[]>`select status from exports where id = ${id}`;
  return row?.status;
};
const build = (id: string) => buildExport(deps(), { exportId: id }).catch(() => {});
/** No version reads such a request: each attempt throws. */
const breakFile = (id: string) => sql`update exports set request = request - 'filter' where id = ${id}`;
const beginEarlier = (id: string, minutesEarlier: number) =>
  sql`
    update exports
    set started_at = now() - make_interval(mins => ${minutesEarlier}::int)
    where id = ${id}`;

test("a refused statement: its merchant is notified once with the reason, and it is not retried", async () => {
  const [pdf, csv] = [await fileOf("pdf"), await fileOf("csv")];
  const refuse = async (id: string) => {
    const started = await startExport(sql, id);
    if (!started || !("export" in started)) throw new Error("it did not start");
    await refuseExport(sql, started.export, "too many movements");
  };
  await refuse(pdf);
  await minutes();
  // the other file is still being made
  expect([(await listed())?.status, (await notices()).length]).toEqual(["IN_PROGRESS", 0]);
  await refuse(csv);
  // of another month, and another merchant's of this one: not made yet
  const other = await seedMerchant(sql, { network: NETWORK });
  await sql`
    insert into monthly_statements (wallet_id, user_id, month)
    values
      (${merchant.walletId}, ${merchant.userId}, '2026-05'),
      (${other.walletId}, ${other.userId}, '2026-06')`;
  await minutes();
  const unannounced = await sql`select from monthly_statements where announced_at is null`;
  expect(unannounced).toHaveLength(2);
  await sql`delete from monthly_statements where month = '2026-05' or wallet_id = ${other.walletId}`;
  const details = { month: "2026-06", network: NETWORK, reason: "too many movements", willRetry: false };
  expect(await notices()).toMatchObject([{ kind: "statement_failed", details }]);
  expect(await listed()).toMatchObject({
    ...{ status: "FAILED", refusal: "too many movements", willRetry: false },
    ...{ pdfExportId: null, csvExportId: null },
  });
  for (const id of [pdf, csv]) await beginEarlier(id, 100 * 24 * 60);
  await minutes();
  expect([await statusOf(pdf), await statusOf(csv)]).toEqual(["FAILED", "FAILED"]);
  expect(await notices()).toHaveLength(1);
});

test("any other failed statement: its merchant is notified once, and it is retried with backoff until it is ready", async () => {
  const [pdf, csv] = [await fileOf("pdf"), await fileOf("csv")];
  const [kept] = await sql<{ request: unknown }[]>`select request from exports where id = ${pdf}`;
  await build(csv);
  await breakFile(pdf);
  for (let attempt = 0; attempt < 3; attempt++) await build(pdf);
  const take = () => takeFailedStatements(sql, { limit: 10, retryDays: 60 });
  const noticeKey = `statement-failed:${NETWORK}:2026-06`;
  await sql`
    insert into notices (user_id, kind, key)
    values (${merchant.userId}, 'statement_failed', 'statement-failed:base:2026-06')`;
  expect(await take()).toMatchObject([{ isOver: false, noticeKey }]);
  await sql`delete from notices`;
  await minutes();
  const details = { month: "2026-06", network: NETWORK, reason: null, willRetry: true };
  expect(await notices()).toMatchObject([{ kind: "statement_failed", details }]);
  expect(await take()).toEqual([]);
  const failed = { status: "FAILED", refusal: null, willRetry: true, pdfExportId: null, csvExportId: csv };
  expect(await listed()).toMatchObject(failed);
  await beginEarlier(pdf, 59);
  await minutes();
  expect(await statusOf(pdf)).toBe("FAILED");
  await sql`select graphile_worker.remove_job(${`build_export:${pdf}`})`;
  await beginEarlier(pdf, 61);
  await minutes();
  expect([await statusOf(pdf), await statusOf(csv)]).toEqual(["QUEUED", "READY"]);
  expect((await listed())?.status).toBe("IN_PROGRESS");
  expect(await sql`select from graphile_worker.jobs where key = ${`build_export:${pdf}`}`).toHaveLength(1);
  // one attempt, and no second mail
  await build(pdf);
  await beginEarlier(pdf, 119);
  await minutes();
  expect(await listed()).toMatchObject(failed);
  expect(await notices()).toHaveLength(1);
  // never more than a day, however often it was tried
  await sql`update exports set attempts = 90 where id = ${pdf}`;
  await beginEarlier(pdf, 23 * 60);
  await minutes();
  expect(await statusOf(pdf)).toBe("FAILED");
  await beginEarlier(pdf, 24 * 60 + 1);
  await minutes();
  await sql`update exports set request = ${JSON.stringify(kept?.request)}::text::jsonb where id = ${pdf}`;
  await build(pdf);
  await minutes();
  expect((await notices()).map(({ kind }) => kind)).toEqual(["statement_failed", "statement_ready"]);
  expect(await listed()).toMatchObject({ status: "READY", pdfExportId: pdf, csvExportId: csv });
});

test("after 60 days a failed statement is not retried, but one not announced yet is announced", async () => {
  const [pdf, csv] = [await fileOf("pdf"), await fileOf("csv")];
  await build(csv);
  await sql`update exports set status = 'FAILED', attempts = 3, error = 'abandoned', started_at = now() where id = ${pdf}`;
  await sql`update monthly_statements set created_at = now() - interval '61 days'`;
  await minutes();
  expect(await notices()).toMatchObject([{ kind: "statement_failed", details: { willRetry: false } }]);
  await beginEarlier(pdf, 100 * 24 * 60);
  await minutes();
  expect(await statusOf(pdf)).toBe("FAILED");
  expect(await listed()).toMatchObject({ status: "FAILED", willRetry: false });
  expect(await notices()).toHaveLength(1);
});

test("a refused file keeps the other file of its statement from being retried", async () => {
  const [pdf, csv] = [await fileOf("pdf"), await fileOf("csv")];
  await sql`update exports set status = 'FAILED', attempts = 3, started_at = now() - interval '9 days' where id = any(${[pdf, csv]}::text[])`;
  await sql`update exports set refusal = 'too many movements' where id = ${csv}`;
  await minutes();
  expect([await statusOf(pdf), await statusOf(csv)]).toEqual(["FAILED", "FAILED"]);
  expect(await notices()).toMatchObject([{ details: { reason: "too many movements" } }]);
});
