/** Which queued export may start: at most two of a user run at a time, no matter who asks and how often. */
import { afterAll, beforeAll, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { newExportId } from "../../core/domain/ids.ts";
import { NO_FILTER } from "../../core/domain/transaction.ts";
import { openLog } from "../../core/runtime/log.ts";
import { insertExport, startExport } from "../../db/exports/exports.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { openReader } from "../../db/postgres/replica.ts";
import { buildExport } from "../../worker/exports/build-export.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { type SeededMerchant, seedMerchant } from "../support/seed.ts";
import { untilBlocked } from "../support/until-blocked.ts";

setDefaultTimeout(120_000);

let db: TestDatabase;
let sql: Sql;
let merchant: SeededMerchant;
beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 8 });
});
beforeEach(async () => {
  merchant = await seedMerchant(sql);
});
afterAll(async () => {
  await sql?.end({ timeout: 5 });
  await db?.drop();
});

async function queue(userId = merchant.userId): Promise<string> {
  const id = newExportId();
  const request = { filter: NO_FILTER, profile: "standard", timeZone: "UTC" } as const;
  await insertExport(sql, { id, userId, format: "csv", requestId: null, request });
  return id;
}

const start = (id: string) => sql.begin((tx) => startExport(tx, id));
const outcomeOf = (started: Awaited<ReturnType<typeof start>>) =>
  started && ("export" in started ? started.export.status : "waits");

test("a user's third export waits until one of two running exports has ended, or is a minute old", async () => {
  const [one, two, three] = [await queue(), await queue(), await queue()];
  const started = [await start(one), await start(two), await start(three)];
  expect(started.map(outcomeOf)).toEqual(["RUNNING", "RUNNING", "waits"]);
  await sql`update exports set started_at = now() - interval '61 seconds' where id = ${one}`;
  expect(outcomeOf(await start(three))).toBe("RUNNING");
  const four = await queue();
  expect(outcomeOf(await start(four))).toBe("waits");
  await sql`update exports set status = 'READY' where id = ${two}`;
  expect(outcomeOf(await start(four))).toBe("RUNNING");
});

test("another user's exports do not count, nor does the one that is started again", async () => {
  const [one, two] = [await queue(), await queue()];
  await start(one);
  await start(two);
  const other = await seedMerchant(sql);
  expect(outcomeOf(await start(await queue(other.userId)))).toBe("RUNNING");
  const again = await start(two);
  expect(again && "export" in again && again.export.attempts).toBe(2);
});

test("an export that is finished or does not exist is not started", async () => {
  const id = await queue();
  await sql`update exports set status = 'READY' where id = ${id}`;
  expect([await start(id), await start(newExportId())]).toEqual([undefined, undefined]);
});

test("race: a third export requested before the second has started waits for it, and then for a free slot", async () => {
  const [one, two, three] = [await queue(), await queue(), await queue()];
  await start(one);
  let third: ReturnType<typeof start> | undefined;
  await sql.begin(async (tx) => {
    expect(outcomeOf(await startExport(tx, two))).toBe("RUNNING");
    third = start(three);
    await untilBlocked(sql, third);
  });
  expect(outcomeOf(await third)).toBe("waits");
});

test("race: an export that ends while it waits to be counted is not started", async () => {
  const [one, ended] = [await queue(), await queue()];
  let second: ReturnType<typeof start> | undefined;
  await sql.begin(async (tx) => {
    await startExport(tx, one);
    second = start(ended);
    await untilBlocked(sql, second);
    await sql`update exports set status = 'FAILED' where id = ${ended}`;
  });
  expect(outcomeOf(await second)).toBe("waits");
  const [row] = await sql<{ status: string; attempts: number }[]>`
    select status, attempts from exports where id = ${ended}`;
  expect(row).toEqual({ status: "FAILED", attempts: 0 });
});

const depsOf = (stop: AbortSignal) => ({
  ...{ sql, chains: new Map(), proofChains: new Map(), config: { chains: [] }, stop },
  ...{ reader: openReader(sql, { replica: undefined, waitMs: 0 }), log: openLog("test", "silent") },
});

test("the job of a file that is refused ends with the reason, and is not tried again", async () => {
  const id = await queue();
  // the merchant has no settings for it
  await sql`
    update exports set format = 'datev', request = jsonb_set(request, '{profile}', '"books"') where id = ${id}`;
  await buildExport(depsOf(new AbortController().signal), { exportId: id });
  const [row] = await sql`select status, refusal from exports where id = ${id}`;
  expect(row).toEqual({ status: "FAILED", refusal: "this format needs the DATEV settings and a currency" });
});

test("a stopping worker finishes its export, and leaves those in line to others without an attempt", async () => {
  const stopping = new AbortController();
  const deps = depsOf(stopping.signal);
  const [current, waiting] = [await queue(), await queue()];
  const building = Promise.withResolvers<void>();
  await sql.begin(async (tx) => {
    await tx`select from exports where id = ${current} for update`;
    buildExport(deps, { exportId: current }).then(building.resolve, building.reject);
    await untilBlocked(sql, building.promise);
    await buildExport(deps, { exportId: waiting });
    stopping.abort("SIGTERM");
  });
  await building.promise;
  const rows = await sql`select id, status, attempts from exports where id = any(${[current, waiting]})`;
  expect(rows).toHaveLength(2);
  expect(rows).toContainEqual({ id: current, status: "READY", attempts: 1 });
  expect(rows).toContainEqual({ id: waiting, status: "QUEUED", attempts: 0 });
  expect(await sql`select from graphile_worker.jobs where key = ${`build_export:${waiting}`}`).toHaveLength(
    1,
  );
});
