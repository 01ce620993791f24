/** An export whose attempt was interrupted: it is tried again, waits for its ledger, is refused or FAILED, and the user's next one is started. */
import { afterAll, beforeAll, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { EXPORT_ATTEMPTS_MAX, LEDGER_WAIT_DAYS } from "../../core/domain/export-lifetime.ts";
import { ExportRefusal } from "../../core/domain/export-refusal-error.ts";
import { newExportId } from "../../core/domain/ids.ts";
import { NO_FILTER } from "../../core/domain/transaction.ts";
import { openLog } from "../../core/runtime/log.ts";
import { insertExport, startExport } from "../../db/exports/exports.ts";
import type { ExportFile } from "../../db/exports/schema.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { endAttempt, returnToQueue } from "../../worker/exports/end-attempt.ts";
import { LedgerIncompleteError } from "../../worker/exports/ledger-incomplete.ts";
import { createTestDatabase, TEST_POOL, type TestDatabase } from "../support/postgres.ts";
import { type SeededMerchant, seedMerchant } from "../support/seed.ts";

setDefaultTimeout(120_000);
let db: TestDatabase;
let sql: Sql;
let merchant: SeededMerchant;

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { ...TEST_POOL, maxConnections: 4 });
});
beforeEach(async () => {
  await sql`delete from graphile_worker._private_jobs`;
  merchant = await seedMerchant(sql);
});
afterAll(async () => {
  await sql?.end({ timeout: 5 });
  await db?.drop();
});

async function queue(): Promise<string> {
  const id = newExportId();
  const request = { filter: NO_FILTER, profile: "standard", timeZone: "UTC" } as const;
  await insertExport(sql, { id, userId: merchant.userId, format: "csv", requestId: null, request });
  return id;
}

async function started(attempts = 1): Promise<ExportFile> {
  const id = await queue();
  await sql`update exports set attempts = ${attempts - 1} where id = ${id}`;
  const start = await sql.begin((tx) => startExport(tx, id));
  if (!start || !("export" in start)) throw new Error("it did not start");
  return start.export;
}

const deps = () => ({ sql, log: openLog("test", "silent") });
const end = (file: ExportFile, error: unknown) =>
  endAttempt(deps(), { file, payload: { exportId: file.id } }, error);
const rowOf = async ({ id }: ExportFile) => {
  const [row] = await sql<
    { status: string; attempts: number; error: string | null; refusal: string | null }[]
  >`
    select status, attempts, error, refusal from exports where id = ${id}`;
  return row;
};
const jobsOf = (id: string) => sql`select from graphile_worker.jobs where key = ${`build_export:${id}`}`;

test("an error before the last attempt is thrown again, so that its job repeats it; at the last one the export is FAILED", async () => {
  const [early, last] = [await started(EXPORT_ATTEMPTS_MAX - 1), await started(EXPORT_ATTEMPTS_MAX)];
  const broken = new RangeError("with what is in a row");
  await expect(end(early, broken)).rejects.toBe(broken);
  expect(await rowOf(early)).toMatchObject({ status: "QUEUED", error: "RangeError", refusal: null });
  await end(last, broken);
  expect(await rowOf(last)).toMatchObject({ status: "FAILED", error: "RangeError", refusal: null });
});

test("a refusal ends the export at once, with its sentence", async () => {
  const file = await started();
  await end(file, new ExportRefusal("too many rows"));
  expect(await rowOf(file)).toMatchObject({ status: "FAILED", refusal: "too many rows", error: null });
});

test("the user's next export is started when one ends", async () => {
  for (const error of [new ExportRefusal("too many rows"), new Error("broken")]) {
    const file = await started(EXPORT_ATTEMPTS_MAX);
    const next = await queue();
    await end(file, error);
    expect(await jobsOf(next)).toHaveLength(1);
    await sql`delete from exports where id = ${next}`;
  }
});

test("an incomplete ledger takes no attempt, within the days that it is waited for", async () => {
  const file = await started(2);
  await end(file, new LedgerIncompleteError());
  expect(await rowOf(file)).toMatchObject({ status: "QUEUED", attempts: 1, error: null });
  expect(await jobsOf(file.id)).toHaveLength(1);
  const late = await started();
  const createdAt = new Date(Date.now() - LEDGER_WAIT_DAYS * 86_400_000);
  const incomplete = new LedgerIncompleteError();
  await expect(end({ ...late, createdAt }, incomplete)).rejects.toBe(incomplete);
  expect(await rowOf(late)).toMatchObject({ status: "QUEUED", attempts: 1 });
});

test("an export that has ended meanwhile is neither queued again nor given a job", async () => {
  const file = await started();
  await sql`update exports set status = 'READY' where id = ${file.id}`;
  await returnToQueue(deps(), { file, payload: { exportId: file.id }, afterMs: 0 });
  expect(await rowOf(file)).toMatchObject({ status: "READY", attempts: 1 });
  expect(await jobsOf(file.id)).toHaveLength(0);
});
