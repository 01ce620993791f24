/** Whose exports, profiles and schedules are read and changed, and which attempt writes: the conditions of the statements, one by one. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { newExportId, newExportProfileId, newExportScheduleId } from "../../core/domain/ids.ts";
import { NO_FILTER } from "../../core/domain/transaction.ts";
import {
  deleteExportProfile,
  findExportProfile,
  insertExportProfile,
  listExportProfiles,
  lockExportProfile,
  updateExportProfile,
} from "../../db/exports/export-profiles.ts";
import {
  deleteExportSchedule,
  deleteSchedulesBy,
  insertExportSchedule,
  insertScheduleRun,
  listExportSchedules,
  pageSchedules,
  pauseExportSchedule,
  setRunExport,
  takeEndedRuns,
} from "../../db/exports/export-schedules.ts";
import {
  deleteChunks,
  failExport,
  findExport,
  findWaitingExport,
  finishExport,
  hasProofs,
  insertChunk,
  insertExport,
  listExports,
  readChunk,
  refuseExport,
  returnExport,
  setExportProgress,
  setExportSize,
} from "../../db/exports/exports.ts";
import {
  type BooksChanges,
  findMerchantBooks,
  lockMerchantBooks,
  updateMerchantBooks,
} from "../../db/exports/merchant-books.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { seedUser } from "../support/passkey-rows.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";

let db: TestDatabase;
let sql: Sql;
let user: string;
let stranger: string;

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 2 });
});
afterAll(async () => {
  await sql?.end();
  await db?.drop();
});
beforeEach(async () => {
  [user, stranger] = [await seedUser(sql), await seedUser(sql)];
});

const idsOf = (rows: readonly { id: string }[]) => rows.map(({ id }) => id).sort();

async function request(userId = user, proof = false): Promise<string> {
  const id = newExportId();
  const given = { filter: NO_FILTER, profile: "standard", timeZone: "UTC", proof } as const;
  await insertExport(sql, { id, userId, format: "csv", requestId: null, request: given });
  return id;
}

const set = (id: string, given: object) => sql`update exports set ${sql(given)} where id = ${id}`;
const rowOf = async (id: string) => {
  type Row = { status: string; attempts: number; rowsDone: number; rowsTotal: number | null };
  const [row] = await sql<Row[]>`
    select status, attempts, rows_done, rows_total from exports where id = ${id}`;
  return row;
};

describe("an export", () => {
  test("is found by and listed to its own user until it expires", async () => {
    const [own, foreign, expired] = [await request(), await request(stranger), await request()];
    await set(expired, { expires_at: new Date() });
    const find = (id: string) => findExport(sql, { id, userId: user });
    expect(await find(own)).toMatchObject({ id: own });
    expect([await find(foreign), await find(expired)]).toEqual([undefined, undefined]);
    expect(idsOf(await listExports(sql, user, 10))).toEqual([own]);
  });

  test("has proofs where its own request asks for them", async () => {
    const [without, proven] = [await request(), await request(user, true)];
    expect([await hasProofs(sql, without), await hasProofs(sql, proven)]).toEqual([false, true]);
  });

  test("has the chunks of its own attempt, by position", async () => {
    const [id, other] = [await request(), await request()];
    const chunk = (text: string, of: string, attempts: number, position: number) =>
      insertChunk(sql, { id: of, attempts }, { position, bytes: Buffer.from(text) });
    await chunk("first", id, 1, 0);
    await chunk("again", id, 2, 0);
    await chunk("next", id, 2, 1);
    await chunk("newer", id, 3, 0);
    await chunk("other", other, 2, 0);
    const read = async (of: string, attempts: number, position: number) =>
      Buffer.from((await readChunk(sql, { id: of, attempts }, position)) ?? []).toString();
    expect(await read(id, 1, 0)).toBe("first");
    expect(await read(id, 2, 0)).toBe("again");
    expect(await read(id, 2, 1)).toBe("next");
    expect(await read(id, 2, 2)).toBe("");
    await deleteChunks(sql, { id, attempts: 2 });
    expect([await read(id, 1, 0), await read(id, 2, 1)]).toEqual(["", ""]);
    expect([await read(id, 3, 0), await read(other, 2, 0)]).toEqual(["newer", "other"]);
  });

  test("that another attempt has started, or that has ended, is not changed by an earlier attempt", async () => {
    const [id, other] = [await request(), await request()];
    for (const one of [id, other]) await set(one, { status: "RUNNING", attempts: 2 });
    const failure = { error: "failed", attemptsMax: 5 };
    const stale = { id, attempts: 1 };
    const tryAll = async (attempt: typeof stale) => {
      await setExportProgress(sql, attempt, 7);
      await finishExport(sql, attempt, { byteSize: 1, rowsDone: 9 });
      await refuseExport(sql, attempt, "refused");
      expect(await returnExport(sql, attempt)).toBe(false);
      return failExport(sql, attempt, failure);
    };
    expect(await tryAll(stale)).toBeUndefined();
    expect(await rowOf(id)).toMatchObject({ status: "RUNNING", rowsDone: 0 });
    await set(id, { status: "FAILED" });
    expect(await tryAll({ id, attempts: 2 })).toBeUndefined();
    expect(await rowOf(id)).toMatchObject({ status: "FAILED", rowsDone: 0 });
    await set(id, { status: "RUNNING" });
    await setExportProgress(sql, { id, attempts: 2 }, 7);
    expect(await rowOf(id)).toMatchObject({ rowsDone: 7 });
    await finishExport(sql, { id, attempts: 2 }, { byteSize: 1, rowsDone: 9 });
    expect(await rowOf(id)).toMatchObject({ status: "READY", rowsDone: 9 });
    expect(await tryAll({ id, attempts: 2 })).toBeUndefined();
    expect(await rowOf(id)).toMatchObject({ status: "READY", rowsDone: 9 });
    expect(await rowOf(other)).toMatchObject({ status: "RUNNING", rowsDone: 0 });
  });

  test("that is returned is QUEUED as before its attempt", async () => {
    const [id, other] = [await request(), await request()];
    for (const one of [id, other]) await set(one, { status: "RUNNING", attempts: 2 });
    expect(await returnExport(sql, { id, attempts: 2 })).toBe(true);
    expect(await rowOf(id)).toMatchObject({ status: "QUEUED", attempts: 1 });
    expect(await rowOf(other)).toMatchObject({ status: "RUNNING", attempts: 2 });
  });

  test("is retried after a failure while attempts are left, and never after a refusal", async () => {
    const [id, refused, other] = [await request(), await request(), await request()];
    for (const one of [id, refused, other]) await set(one, { status: "RUNNING", attempts: 1 });
    const fail = (attempts: number) => failExport(sql, { id, attempts }, { error: "failed", attemptsMax: 2 });
    expect(await fail(1)).toBe("QUEUED");
    await set(id, { status: "RUNNING", attempts: 2 });
    expect(await fail(2)).toBe("FAILED");
    await refuseExport(sql, { id: refused, attempts: 1 }, "refused");
    expect(await rowOf(refused)).toMatchObject({ status: "FAILED" });
    expect(await rowOf(other)).toMatchObject({ status: "RUNNING" });
    await setExportSize(sql, id, { rows: 3, matched: 4 });
    expect([(await rowOf(id))?.rowsTotal, (await rowOf(other))?.rowsTotal]).toEqual([3, null]);
  });

  test("that has waited longest is next among its user's, while it is QUEUED", async () => {
    const [ended, first] = [await request(), await request()];
    await request();
    await request(stranger);
    await set(ended, { status: "READY" });
    expect(await findWaitingExport(sql, user)).toEqual({ id: first });
    await sql`update exports set status = 'RUNNING' where user_id = ${user}`;
    expect(await findWaitingExport(sql, user)).toBeUndefined();
  });
});

const DEFINITION = {} as Parameters<typeof insertExportProfile>[1]["definition"];

async function profile(userId = user, name = "Books", most = 10): Promise<string> {
  const made = await insertExportProfile(
    sql,
    { id: newExportProfileId(), userId, name, definition: DEFINITION },
    most,
  );
  return typeof made === "string" ? made : made.id;
}

describe("a profile", () => {
  test("has a unique name among its user's, who may have a limited number", async () => {
    await profile(stranger, "Other");
    const first = await profile(user, "Books", 2);
    expect(await profile()).toBe("name_taken");
    expect(await profile(stranger)).toStartWith("epr_");
    expect(await profile(user, "More", 2)).toStartWith("epr_");
    expect(await profile(user, "Third", 2)).toBe("too_many");
    const rename = (name: string) =>
      updateExportProfile(sql, { id: first, userId: user }, { name, definition: DEFINITION });
    expect(await rename("More")).toBe("name_taken");
    expect(await rename("Books")).toMatchObject({ id: first });
  });

  test("is found, listed, changed and deleted only by its own user", async () => {
    const [id, other, foreign] = [await profile(), await profile(user, "More"), await profile(stranger)];
    const [own, wrong] = [
      { id, userId: user },
      { id, userId: stranger },
    ];
    const change = { name: "Changed", definition: DEFINITION };
    for (const read of [findExportProfile, lockExportProfile]) {
      expect(await read(sql, wrong)).toBeUndefined();
      expect(await read(sql, own)).toMatchObject({ id });
    }
    expect(await updateExportProfile(sql, wrong, change)).toBeUndefined();
    expect(await updateExportProfile(sql, own, change)).toMatchObject({ id, name: "Changed" });
    expect((await listExportProfiles(sql, user)).map(({ name }) => name)).toEqual(["Changed", "More"]);
    expect(await deleteExportProfile(sql, wrong)).toBe(false);
    expect(await deleteExportProfile(sql, own)).toBe(true);
    expect(idsOf(await listExportProfiles(sql, user))).toEqual([other]);
    expect(idsOf(await listExportProfiles(sql, stranger))).toEqual([foreign]);
  });
});

describe("a schedule", () => {
  async function schedule(profileId: string, { userId = user, createdBy = user, most = 10 } = {}) {
    const given = { id: newExportScheduleId(), userId, profileId, createdBy };
    const made = await insertExportSchedule(sql, { ...given, frequency: "monthly", delivery: "mail" }, most);
    return made?.id;
  }
  const PERIOD = {
    ...{ firstDay: "2026-05-01", lastDay: "2026-05-31" },
    endsAt: new Date("2026-06-01T00:00:00Z"),
  };
  const isPaused = async (id: string) => {
    const [row] = await sql<{ isPaused: boolean }[]>`
      select paused_at is not null as is_paused from export_schedules where id = ${id}`;
    return row?.isPaused;
  };

  test("belongs to a profile of its own user, who may have a limited number", async () => {
    const [own, foreign] = [await profile(), await profile(stranger)];
    await profile(user, "More");
    expect(await schedule(foreign)).toBeUndefined();
    await schedule(foreign, { userId: stranger });
    expect(await schedule(own, { most: 1 })).toBeDefined();
    expect(await schedule(own, { most: 1 })).toBeUndefined();
    expect((await listExportSchedules(sql, user)).map(({ profileId }) => profileId)).toEqual([own]);
  });

  test("is paused, resumed and deleted only by its own user", async () => {
    const of = await profile();
    const [id = "", other = ""] = [await schedule(of), await schedule(of)];
    const [own, wrong] = [
      { id, userId: user },
      { id, userId: stranger },
    ];
    expect(await pauseExportSchedule(sql, wrong, true)).toBe(false);
    expect(await pauseExportSchedule(sql, own, true)).toBe(true);
    expect([await isPaused(id), await isPaused(other)]).toEqual([true, false]);
    expect(await deleteExportSchedule(sql, wrong)).toBe(false);
    expect(await deleteExportSchedule(sql, own)).toBe(true);
    expect(idsOf(await listExportSchedules(sql, user))).toEqual([other]);
  });

  test("ends with the membership of the person who created it for this merchant", async () => {
    const [of, elsewhere] = [await profile(), await profile(stranger)];
    const member = await seedUser(sql);
    const [gone = "", kept = ""] = [await schedule(of, { createdBy: member }), await schedule(of)];
    const foreign = await schedule(elsewhere, { userId: stranger, createdBy: member });
    await deleteSchedulesBy(sql, { userId: user, createdBy: member });
    expect(idsOf(await listExportSchedules(sql, user))).toEqual([kept]);
    expect(idsOf(await listExportSchedules(sql, stranger))).toEqual([foreign ?? ""]);
    expect(gone).not.toBe(kept);
  });

  test("is run once for each period, with an export of its own, unless it is paused", async () => {
    const of = await profile();
    const [id = "", paused = ""] = [await schedule(of), await schedule(of)];
    await pauseExportSchedule(sql, { id: paused, userId: user }, true);
    expect(await insertScheduleRun(sql, paused, PERIOD)).toBe(false);
    expect(await insertScheduleRun(sql, id, PERIOD)).toBe(true);
    expect(await insertScheduleRun(sql, id, PERIOD)).toBe(false);
    expect(
      await insertScheduleRun(sql, id, { ...PERIOD, firstDay: "2026-04-01", lastDay: "2026-04-30" }),
    ).toBe(true);
    const exportId = await request();
    await setRunExport(sql, { scheduleId: id, firstDay: PERIOD.firstDay }, exportId);
    const runs = await sql<{ firstDay: string; exportId: string | null }[]>`
      select to_char(first_day, 'YYYY-MM-DD') as first_day, export_id
      from export_schedule_runs where schedule_id = ${id} order by first_day`;
    expect([...runs]).toEqual([
      { firstDay: "2026-04-01", exportId: null },
      { firstDay: PERIOD.firstDay, exportId },
    ]);
    const another = (await schedule(of)) ?? "";
    const later = { firstDay: "2026-07-01", lastDay: "2026-07-31", endsAt: new Date("2026-08-01T00:00:00Z") };
    await insertScheduleRun(sql, another, later);
    const active = (await pageSchedules(sql, "", 100)).filter(({ userId }) => userId === user);
    expect(active.find((one) => one.id === id)).toMatchObject({
      ...{ lastDay: PERIOD.lastDay, endedAt: PERIOD.endsAt },
    });
    expect(idsOf(active)).toEqual([id, another].sort());
    expect(idsOf(await pageSchedules(sql, id, 100))).not.toContain(id);
    expect((await listExportSchedules(sql, user)).find((one) => one.id === id)).toMatchObject({ exportId });
    expect((await listExportSchedules(sql, user)).find((one) => one.id === paused)).toMatchObject({
      exportId: null,
    });
  });

  test("is announced once for each period, when its export has ended", async () => {
    await profile(user, "More");
    const of = await profile();
    const [ready = "", failed = "", running = ""] = [
      await schedule(of),
      await schedule(of),
      await schedule(of),
    ];
    const exports = new Map<string, string>();
    for (const [id, status] of [
      [ready, "READY"],
      [failed, "FAILED"],
      [running, "RUNNING"],
    ] as const) {
      const exportId = await request();
      await set(exportId, { status });
      await insertScheduleRun(sql, id, PERIOD);
      await setRunExport(sql, { scheduleId: id, firstDay: PERIOD.firstDay }, exportId);
      exports.set(id, exportId);
    }
    const taken = async () =>
      (await takeEndedRuns(sql, 10)).map(({ scheduleId, exportId, userId, profileId }) => ({
        ...{ scheduleId, exportId, userId, profileId },
      }));
    const run = (scheduleId: string) => ({
      ...{ scheduleId, exportId: exports.get(scheduleId) ?? "", userId: user, profileId: of },
    });
    const sorted = (rows: { scheduleId: string }[]) =>
      rows.toSorted((one, other) => (one.scheduleId < other.scheduleId ? -1 : 1));
    expect(sorted(await taken())).toEqual(sorted([run(ready), run(failed)]));
    expect(await taken()).toEqual([]);
    await set(exports.get(running) ?? "", { status: "READY" });
    expect(await taken()).toEqual([run(running)]);
  });
});

/** As the settings' route does. */
async function changeBooks(userId: string, changes: BooksChanges) {
  return sql.begin(async (tx) => {
    await lockMerchantBooks(tx, userId);
    return updateMerchantBooks(tx, userId, changes);
  });
}

test("monthly statements begin with the month in which they were switched on, not with a later change", async () => {
  const since = async (monthlyStatements?: boolean) =>
    (await changeBooks(user, { monthlyStatements })).monthlySince?.getTime();
  expect(await since()).toBeUndefined();
  const begun = await since(true);
  expect([await since(true), await since()]).toEqual([begun, begun]);
  await since(false);
  expect(await since(true)).toBeGreaterThan(begun ?? Number.POSITIVE_INFINITY);
});

test("the settings of a merchant's books are the merchant's own", async () => {
  await changeBooks(stranger, { legalName: "Stranger" });
  await changeBooks(user, { legalName: "Own" });
  await changeBooks(user, { taxId: "1" });
  expect(await findMerchantBooks(sql, user)).toMatchObject({ legalName: "Own", taxId: "1" });
  expect(await findMerchantBooks(sql, stranger)).toMatchObject({ legalName: "Stranger", taxId: null });
  expect(await findMerchantBooks(sql, await seedUser(sql))).toBeUndefined();
});
