/** Scheduled exports: which period is next, when it is made, that it is made once, and how it is announced. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { newWalletId } from "../../core/domain/ids.ts";
import type { NetworkId } from "../../core/domain/networks.ts";
import { nextPeriod, periodAround } from "../../core/domain/schedule-period.ts";
import { openLog } from "../../core/runtime/log.ts";
import { insertScheduleRun } from "../../db/exports/export-schedules.ts";
import { enqueue } from "../../db/jobs/queue.ts";
import { runSchedules } from "../../worker/exports/run-due-schedules.ts";
import { type MerchantWorld, startMerchantWorld } from "../links/merchant-world.ts";
import { randomHash } from "../links/payers.ts";
import { newMember } from "../support/members.ts";
import { waitFor } from "../support/relay-lab.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { insertHistory } from "../transactions/history.ts";
import { exportAs, fetchFile } from "./ask.ts";
import { parseCsv } from "./read-files.ts";

setDefaultTimeout(120_000);

test("a week goes from Monday to Sunday, a month to its last day", () => {
  expect(periodAround("2026-03-01", "weekly")).toEqual({ firstDay: "2026-02-23", lastDay: "2026-03-01" });
  expect(periodAround("2026-03-02", "weekly")).toEqual({ firstDay: "2026-03-02", lastDay: "2026-03-08" });
  expect(periodAround("2028-02-29", "monthly")).toEqual({ firstDay: "2028-02-01", lastDay: "2028-02-29" });
  expect(periodAround("2026-12-31", "monthly")).toEqual({ firstDay: "2026-12-01", lastDay: "2026-12-31" });
});

test("the first period is the one a schedule was made in, and each follows the one before", () => {
  const made = { frequency: "monthly", madeOn: "2026-01-31" } as const;
  expect(nextPeriod({ ...made, lastDay: null }).firstDay).toBe("2026-01-01");
  expect(nextPeriod({ ...made, lastDay: "2026-04-30" })).toEqual({
    firstDay: "2026-05-01",
    lastDay: "2026-05-31",
  });
});

describe("a schedule", () => {
  let world: MerchantWorld;
  let ann: Merchant;

  beforeAll(async () => {
    world = await startMerchantWorld();
    ann = await signUp(world.baseUrl);
  });
  afterAll(() => world?.stop());

  type Given = { profile?: Record<string, unknown>; delivery?: string; madeAt: string };
  async function schedule({ profile, delivery = "webhook", madeAt }: Given): Promise<string> {
    const name = `Profile of ${madeAt} ${delivery}`;
    const saved = await ann.client.post("/v1/export-profiles", { name, format: "csv", ...profile });
    const made = await ann.client.post("/v1/export-schedules", {
      ...{ profileId: saved.body.data.id, frequency: "monthly", delivery },
    });
    expect(made.status).toBe(201);
    await world.sql`update export_schedules set created_at = ${madeAt}::text::timestamptz where id = ${made.body.data.id}`;
    return made.body.data.id;
  }
  const insertBaseWallet = () => world.sql`
    insert into wallets (id, user_id, network, address, passkey_id, factory, owners)
    select ${newWalletId()}, user_id, 'base', address, passkey_id, factory, owners
    from wallets
    where user_id = ${ann.userId}`;
  /** As the worker does every minute. */
  const run = (now: string, networks: readonly NetworkId[] = ["base-sepolia"]) => {
    const chains = networks.map((id) => ({ id, rpcUrls: [], confirmations: 1 }));
    return runSchedules(
      {
        ...{ sql: world.sql, log: openLog("test", "silent") },
        config: { chains, baseUrl: world.baseUrl },
      },
      new Date(now),
    );
  };
  const periodsOf = async (id: string) => {
    const rows = await world.sql<{ day: string }[]>`
      select to_char(first_day, 'YYYY-MM-DD') as day
      from export_schedule_runs
      where schedule_id = ${id}
      order by first_day`;
    return rows.map(({ day }) => day);
  };
  const announced = (id: string, day: string) =>
    waitFor("the run to be announced", async () => {
      const [row] = await world.sql`
        select
        from export_schedule_runs
        where schedule_id = ${id} and first_day = ${day}::text::date and announced_at is not null`;
      if (!row) await run("2026-11-01T00:00:00Z");
      return row !== undefined;
    });

  test("creates the file of each month once, and announces it by event or mail", async () => {
    await insertHistory(world.sql, ann.userId, [
      { amountUnits: 1_000_000n, detectedAt: "2026-05-31T23:59:59.000Z" },
      { amountUnits: 2_000_000n, detectedAt: "2026-06-01T00:00:00.000Z" },
      { amountUnits: 3_000_000n, detectedAt: "2026-06-30T23:59:59.000Z" },
      { amountUnits: 4_000_000n, detectedAt: "2026-07-01T00:00:00.000Z" },
    ]);
    const byEvent = await schedule({ madeAt: "2026-06-10T00:00:00Z" });
    const byMail = await schedule({ madeAt: "2026-06-10T00:00:01Z", delivery: "mail" });
    await Promise.all([run("2026-07-02T00:00:00Z"), run("2026-07-02T00:00:00Z")]);
    await announced(byEvent, "2026-06-01");
    await announced(byMail, "2026-06-01");
    const { body } = await ann.client.get("/v1/export-schedules");
    expect(body.data.schedules.map(({ id }: { id: string }) => id)).toEqual([byEvent, byMail]);
    const exports = await world.sql`
      select run.schedule_id
      from export_schedule_runs run
      join exports on exports.id = run.export_id and exports.status = 'READY'
      where run.first_day = '2026-06-01'`;
    expect(exports.length).toBe(2);
    const event = await waitFor("the event", async () => {
      const { body: listed } = await ann.client.get("/v1/events?limit=100");
      return listed.data.find(
        ({ type, data }: { type: string; data: Record<string, unknown> }) =>
          type === "export.ready" && data.dateFrom === "2026-06-01",
      );
    });
    expect(event.data).toMatchObject({ scheduleId: byEvent, dateTo: "2026-06-30" });
    const [header = [], ...records] = parseCsv((await fetchFile(ann.client, event.data.downloadUrl)).text);
    expect(records.map((record) => record[header.indexOf("Net")])).toEqual(["2.000000", "3.000000"]);
    const mails = () =>
      world.mailbox.messages(ann.email).filter(({ subject }) => subject.includes("2026-06-01 to 2026-06-30"));
    await waitFor("the mail", async () => mails().length > 0);
    expect(mails().map(({ subject }) => subject)).toEqual([
      expect.stringMatching(/^Profile of .* mail: your scheduled export for 2026-06-01 to 2026-06-30/),
    ]);
    for (const id of [byEvent, byMail])
      expect((await ann.client.delete(`/v1/export-schedules/${id}`)).status).toBe(200);
  });

  test("has a file without gaps: none is created while the ledger is incomplete again", async () => {
    const id = await schedule({ madeAt: "2026-02-10T00:00:00Z" });
    const rows = [
      { amountUnits: 2_000_000n, detectedAt: "2026-02-11T00:00:00.000Z" },
      { amountUnits: 3_000_000n, detectedAt: "2026-02-12T00:00:00.000Z" },
    ];
    const [, later] = await insertHistory(world.sql, ann.userId, rows);
    await world.kill("worker");
    await run("2026-03-02T00:00:00Z");
    // a reorganisation took its block, and it is in another one now
    await world.sql`update transactions set status = 'DETECTED' where id = ${later ?? ""}`;
    await world.start("worker");
    const made = async () => {
      const [row] = await world.sql<{ id: string; status: string; attempts: number; hasBegun: boolean }[]>`
        select exports.id, exports.status, exports.attempts, exports.started_at is not null as has_begun
        from export_schedule_runs run
        join exports on exports.id = run.export_id
        where run.schedule_id = ${id} and run.first_day = '2026-02-01'`;
      return row;
    };
    await waitFor("the wait", async () => {
      const file = await made();
      return file?.hasBegun === true && file.status === "QUEUED";
    });
    const { id: exportId = "", attempts } = (await made()) ?? {};
    expect(attempts).toBe(0);
    await world.sql`update transactions set status = 'CONFIRMED' where id = ${later ?? ""}`;
    // its job runs a minute later
    await enqueue(world.sql, "build_export", { exportId });
    await waitFor("the file", async () => (await made())?.status === "READY");
    const path = `/v1/transactions/exports/${(await made())?.id}/download`;
    const [header = [], ...records] = parseCsv((await fetchFile(ann.client, path)).text);
    expect(records.map((record) => record[header.indexOf("Net")])).toEqual(["2.000000", "3.000000"]);
    expect((await ann.client.delete(`/v1/export-schedules/${id}`)).status).toBe(200);
  });

  test("reports why no file is created for a month with too many movements", async () => {
    const many = (count: number) =>
      Array.from({ length: count }, () => ({ detectedAt: "2026-04-15T00:00:00.000Z" }));
    await insertHistory(world.sql, ann.userId, many(10_001));
    const id = await schedule({ madeAt: "2026-04-10T00:00:00Z" });
    await run("2026-05-02T00:00:00Z");
    await announced(id, "2026-04-01");
    const [made] = await world.sql`
      select exports.status, exports.refusal
      from export_schedule_runs run
      join exports on exports.id = run.export_id
      where run.schedule_id = ${id} and run.first_day = '2026-04-01'`;
    expect(made).toEqual({ status: "FAILED", refusal: expect.stringContaining("10001 match") });
    await ann.client.delete(`/v1/export-schedules/${id}`);
  });

  test("waits until the month is over and its transfers are confirmed", async () => {
    const kept = await insertHistory(world.sql, ann.userId, [
      { status: "DETECTED", detectedAt: "2026-09-15T00:00:00.000Z" },
    ]);
    const id = await schedule({ madeAt: "2026-09-20T00:00:00Z" });
    await run("2026-09-30T23:59:59Z");
    expect(await periodsOf(id)).toEqual([]);
    await run("2026-10-01T00:00:00Z");
    expect(await periodsOf(id)).toEqual([]);
    await world.sql`update transactions set status = 'CONFIRMED', confirmed_at = detected_at where id = any(${kept})`;
    await run("2026-10-01T00:00:00Z");
    expect((await periodsOf(id))[0]).toBe("2026-09-01");
    await ann.client.delete(`/v1/export-schedules/${id}`);
  });

  test("writes no test money into books if there is a wallet with real money, unless its network is requested", async () => {
    await insertHistory(world.sql, ann.userId, [
      { amountUnits: 7_000_000n, detectedAt: "2035-03-05T00:00:00.000Z" },
      { amountUnits: 9_000_000n, detectedAt: "2035-03-06T00:00:00.000Z", network: "base" },
    ]);
    const netsOf = async (body: Record<string, unknown>) => {
      const dates = { dateFrom: "2035-03-01", dateTo: "2035-03-31" };
      const file = await exportAs(ann.client, { format: "csv", profile: "books", ...dates, ...body });
      const [header = [], ...records] = parseCsv(file.text);
      return records.map((record) => record[header.indexOf("Net")]);
    };
    // who only has a test wallet sees what files look like
    expect(await netsOf({})).toEqual(["7.000000", "9.000000"]);
    await insertBaseWallet();
    expect(await netsOf({})).toEqual(["9.000000"]);
    expect(await netsOf({ networks: ["base-sepolia"] })).toEqual(["7.000000"]);
    expect(await netsOf({ networks: ["base", "base-sepolia"] })).toEqual(["7.000000", "9.000000"]);
    // nor does a schedule wait for a ledger whose movements its file leaves out
    const id = await schedule({ madeAt: "2035-03-10T00:00:00Z" });
    await run("2035-04-03T00:00:00Z", ["base-sepolia"]);
    expect(await periodsOf(id)).toEqual(["2035-03-01"]);
    await world.sql`delete from wallets where network = 'base'`;
    await ann.client.delete(`/v1/export-schedules/${id}`);
  });

  test("waits for a network whose ledger is not known yet, and not for one that is no longer enabled", async () => {
    await insertBaseWallet();
    // months to come, which the world's own worker makes no file of
    const id = await schedule({ madeAt: "2034-08-10T00:00:00Z", profile: { networks: ["base"] } });
    await run("2034-09-01T00:00:00Z", ["base-sepolia", "base"]);
    expect(await periodsOf(id)).toEqual([]);
    // its ledger ends where it was switched off
    const block = { number: 100, hash: randomHash(), time: "2034-08-15T00:00:00Z" };
    await world.sql`
      insert into cursors (network, number, hash, head_number)
      values ('base', ${block.number + 1}, ${randomHash()}, ${block.number + 1})`;
    await world.sql`
      insert into blocks (network, number, hash, parent_hash, block_time)
      values ('base', ${block.number}, ${block.hash}, ${randomHash()}, ${block.time}::text::timestamptz)`;
    await run("2034-09-01T00:00:00Z", ["base-sepolia", "base"]);
    expect(await periodsOf(id)).toEqual([]);
    await run("2034-09-01T00:00:00Z");
    expect(await periodsOf(id)).toEqual(["2034-08-01"]);
    for (const table of ["wallets", "cursors", "blocks"])
      await world.sql`delete from ${world.sql(table)} where network = 'base'`;
    await ann.client.delete(`/v1/export-schedules/${id}`);
  });

  test("waits four days for the rate of the last day, and says why no file could be made", async () => {
    await ann.client.patch("/v1/settings/books", { rateSource: "own" });
    // no wallet there: the months to come are confirmed
    const profile = { format: "xero_csv", fiatCurrency: "EUR", networks: ["base"] };
    const id = await schedule({ madeAt: "2031-03-05T00:00:00Z", profile });
    await run("2031-04-04T23:59:59Z");
    expect(await periodsOf(id)).toEqual([]);
    await run("2031-04-05T00:00:00Z");
    expect(await periodsOf(id)).toEqual(["2031-03-01"]);
    const rates = { currency: "EUR", dateFrom: "2031-04-25", dateTo: "2031-04-25", rate: "0.9" };
    await ann.client.post("/v1/exchange-rates", rates);
    await run("2031-05-01T00:00:00Z");
    expect(await periodsOf(id)).toEqual(["2031-03-01", "2031-04-01"]);
    await ann.client.delete(`/v1/export-schedules/${id}`);
  });

  test("makes nothing while it is paused, and every period of the pause once it is resumed", async () => {
    const id = await schedule({ madeAt: "2033-01-10T00:00:00Z", profile: { networks: ["base"] } });
    const pause = (paused: boolean) => ann.client.patch(`/v1/export-schedules/${id}`, { paused });
    const paused = await pause(true);
    expect([paused.status, typeof paused.body.data.pausedAt]).toEqual([200, "string"]);
    // pausing twice keeps the time of the first
    expect((await pause(true)).body.data.pausedAt).toBe(paused.body.data.pausedAt);
    await run("2033-03-01T00:00:00Z");
    expect(await periodsOf(id)).toEqual([]);
    // a worker that had read the schedule before it was paused
    const endsAt = new Date("2033-02-01T00:00:00Z");
    const days = { firstDay: "2033-01-01", lastDay: "2033-01-31", endsAt };
    expect(await insertScheduleRun(world.sql, id, days)).toBe(false);
    expect((await pause(false)).body.data.pausedAt).toBeNull();
    await run("2033-03-01T00:00:00Z");
    await run("2033-03-01T00:00:00Z");
    await run("2033-03-01T00:00:00Z");
    expect(await periodsOf(id)).toEqual(["2033-01-01", "2033-02-01"]);
    const kim = await signUp(world.baseUrl);
    const foreign = await kim.client.patch(`/v1/export-schedules/${id}`, { paused: true });
    expect(foreign.status).toBe(404);
    await ann.client.delete(`/v1/export-schedules/${id}`);
  });

  test("begins each file where the previous one ended, even if the time zone has changed since", async () => {
    const useZone = (timeZone: string) => ann.client.patch("/v1/settings/books", { timeZone });
    await useZone("Pacific/Auckland");
    const id = await schedule({ madeAt: "2034-05-10T00:00:00Z", profile: { networks: ["base"] } });
    await run("2034-06-02T00:00:00Z");
    await useZone("UTC");
    await run("2034-07-02T00:00:00Z");
    const files = await world.sql<{ from: string; before: string }[]>`
      select exports.request #>> '{filter,from}' as from, exports.request #>> '{filter,before}' as before
      from export_schedule_runs run
      join exports on exports.id = run.export_id
      where run.schedule_id = ${id}
      order by run.first_day`;
    expect([...files]).toEqual([
      { from: "2034-04-30T12:00:00.000Z", before: "2034-05-31T12:00:00.000Z" },
      { from: "2034-05-31T12:00:00.000Z", before: "2034-07-01T00:00:00.000Z" },
    ]);
    await ann.client.delete(`/v1/export-schedules/${id}`);
  });

  test("ends with its profile or its maker's membership, and is inaccessible to anybody else", async () => {
    const kim = await signUp(world.baseUrl);
    const id = await schedule({ madeAt: "2032-01-01T00:00:00Z" });
    expect((await kim.client.delete(`/v1/export-schedules/${id}`)).status).toBe(404);
    const { body } = await ann.client.get("/v1/export-schedules");
    const { profileId } = body.data.schedules[0];
    const asked = { profileId, frequency: "weekly", delivery: "mail" };
    expect((await kim.client.post("/v1/export-schedules", asked)).status).toBe(404);
    const accountant = await newMember(ann, "accountant");
    const acting = { "x-merchant": ann.userId };
    const theirs = await accountant.client.post("/v1/export-schedules", asked, acting);
    expect(theirs.status).toBe(201);
    const left = async () => {
      const listed = await ann.client.get("/v1/export-schedules");
      return listed.body.data.schedules.map((one: { id: string }) => one.id);
    };
    expect(await left()).toEqual([theirs.body.data.id, id].toSorted((a) => (a === id ? 1 : -1)));
    const changed = await ann.client.patch(`/v1/members/${accountant.userId}`, { role: "viewer" });
    expect([changed.status, await left()]).toEqual([200, [id]]);
    await ann.client.patch(`/v1/members/${accountant.userId}`, { role: "accountant" });
    expect((await accountant.client.post("/v1/export-schedules", asked, acting)).status).toBe(201);
    expect((await ann.client.delete(`/v1/members/${accountant.userId}`)).status).toBe(200);
    expect(await left()).toEqual([id]);
    await ann.client.delete(`/v1/export-profiles/${profileId}`);
    expect(await left()).toEqual([]);
  });
});
