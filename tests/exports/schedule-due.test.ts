/** When scheduled exports are made: after their period, once its ledger is complete and, in a currency, its last rate is known; all of them, and once. */
import { afterAll, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { ProfileDefinition } from "../../core/domain/export-profile.ts";
import { newWalletId } from "../../core/domain/ids.ts";
import type { NetworkId } from "../../core/domain/networks.ts";
import { NO_FILTER } from "../../core/domain/transaction.ts";
import { openLog } from "../../core/runtime/log.ts";
import type { ExportRequest } from "../../db/exports/exports.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { isLedgerComplete, isScheduleDue } from "../../worker/exports/is-schedule-due.ts";
import { runSchedules } from "../../worker/exports/run-due-schedules.ts";
import { createTestDatabase, TEST_POOL, type TestDatabase } from "../support/postgres.ts";
import { type SeededMerchant, seedMerchant } from "../support/seed.ts";

setDefaultTimeout(120_000);
const NETWORK = "base-sepolia";
const BEFORE = new Date("2026-07-01T00:00:00Z");
const LAST_DAY = "2026-06-30";
const DAY_MS = 86_400_000;
/** Schedules that are read at once. */
const PAGE = 500;
const DEFINITION: ProfileDefinition = {
  ...{ format: "csv", columns: null, fiatCurrency: null, timeZone: null },
  ...{ types: [], networks: [] },
};
let db: TestDatabase;
let sql: Sql;
let merchant: SeededMerchant;

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { ...TEST_POOL, maxConnections: 4 });
});
beforeEach(async () => {
  await sql`delete from export_schedules`;
  await sql`delete from blocks`;
  await sql`delete from cursors`;
  for (const network of [NETWORK, "base"]) await readTo(network as NetworkId);
  merchant = await seedMerchant(sql, { network: NETWORK });
  await knowPast(NETWORK);
});
afterAll(async () => {
  await sql?.end({ timeout: 5 });
  await db?.drop();
});

/** A ledger that is confirmed and read twice to the period's end. */
async function readTo(network: NetworkId): Promise<void> {
  const [hash = "", parent = ""] = ["11", "10"].map((byte) => `0x${byte.repeat(32)}`);
  await sql`
    insert into blocks (network, number, hash, parent_hash, block_time)
    values (${network}, 90, ${hash}, ${parent}, ${new Date(BEFORE.getTime() - 1_000)})`;
  await sql`
    insert into cursors (network, number, hash, head_number, rechecked_number) values (${network}, 100, ${hash}, 100, 90)`;
}
const knowPast = (network: NetworkId) => sql`
  update wallets set backfilled_at = now(), opening_units = 0
  where user_id = ${merchant.userId} and network = ${network}`;
const forgetPast = (network: NetworkId) => sql`
  update wallets set opening_units = null where user_id = ${merchant.userId} and network = ${network}`;
const addBaseWallet = () => sql`
  insert into wallets (id, user_id, network, address, passkey_id, factory, owners)
  select ${newWalletId()}, user_id, 'base', address, passkey_id, factory, owners
  from wallets
  where user_id = ${merchant.userId}`;
const depsOf = (networks: readonly NetworkId[] = [NETWORK, "base"]) => ({
  ...{ sql, log: openLog("test", "silent") },
  config: {
    chains: networks.map((id) => ({ id, rpcUrls: [], confirmations: 1 })),
    baseUrl: "https://pay.example",
  },
});

describe("the ledger of a period is complete", () => {
  const isComplete = (networks: readonly NetworkId[] = [], enabled?: readonly NetworkId[]) =>
    isLedgerComplete(depsOf(enabled), { userId: merchant.userId, networks, before: BEFORE }, BEFORE);

  test("when the wallet's past is known, and its network was read", async () => {
    expect(await isComplete()).toBe(true);
    await forgetPast(NETWORK);
    expect(await isComplete()).toBe(false);
    await knowPast(NETWORK);
    await sql`delete from cursors where network = ${NETWORK}`;
    expect(await isComplete()).toBe(false);
  });

  test("up to its end, not to a second before", async () => {
    await sql`update blocks set block_time = block_time - interval '1 second'`;
    expect(await isComplete()).toBe(false);
  });

  test("on the networks that were chosen, or else on those with real money", async () => {
    await addBaseWallet();
    await knowPast("base");
    await forgetPast(NETWORK);
    expect([await isComplete(), await isComplete(["base"]), await isComplete([NETWORK])]).toEqual([
      true,
      true,
      false,
    ]);
    await knowPast(NETWORK);
    await forgetPast("base");
    expect([await isComplete(), await isComplete(["base"]), await isComplete([NETWORK])]).toEqual([
      false,
      false,
      true,
    ]);
    expect(await isComplete(["base", NETWORK])).toBe(false);
  });

  test("on a network that is no longer enabled, which stands still, and of the others that counts", async () => {
    await addBaseWallet();
    await forgetPast("base");
    expect(await isComplete(["base", NETWORK], [NETWORK])).toBe(true);
    await forgetPast(NETWORK);
    expect(await isComplete(["base", NETWORK], [NETWORK])).toBe(false);
  });
});

describe("a schedule is due", () => {
  const OWN = { currency: "EUR", source: "own", usdcRate: "par", isCorrected: false } as const;
  const isDue = (nowMs: number, { fiat = undefined as ExportRequest["fiat"], before = BEFORE } = {}) => {
    const request = { filter: NO_FILTER, profile: "books", timeZone: "UTC", fiat } as ExportRequest;
    const { userId } = merchant;
    const schedule = {
      ...({ id: "exs_1", userId, createdAt: BEFORE, frequency: "monthly", definition: DEFINITION } as const),
      ...{ lastDay: null, endedAt: null },
    };
    return isScheduleDue(depsOf(), schedule, { before, lastDay: LAST_DAY, request, now: new Date(nowMs) });
  };
  const endMs = BEFORE.getTime();

  test("from the end of its period on", async () => {
    expect([await isDue(endMs - 1), await isDue(endMs)]).toEqual([false, true]);
  });

  test("with a complete ledger, however long that takes", async () => {
    await forgetPast(NETWORK);
    expect([await isDue(endMs), await isDue(endMs + 90 * DAY_MS)]).toEqual([false, false]);
  });

  test("in a currency with the rate of its last day, or without after four days", async () => {
    expect([
      await isDue(endMs, { fiat: OWN }),
      await isDue(endMs + 4 * DAY_MS - 1, { fiat: OWN }),
      await isDue(endMs + 4 * DAY_MS, { fiat: OWN }),
    ]).toEqual([false, false, true]);
    await sql`
      insert into merchant_rates (user_id, currency, day, rate_e10)
      values (${merchant.userId}, 'EUR', ${LAST_DAY}::text::date, 9000000000)`;
    expect(await isDue(endMs, { fiat: OWN })).toBe(true);
  });
});

describe("a run of schedules", () => {
  const NOW = new Date("2026-07-01T00:00:00Z");
  let made = 0;

  async function newProfile(definition: object = DEFINITION): Promise<string> {
    made += 1;
    const id = `epr_${made}`;
    await sql`
      insert into export_profiles (id, user_id, name, definition)
      values (${id}, ${merchant.userId}, ${`Profile ${made}`}, ${JSON.stringify(definition)}::text::jsonb)`;
    return id;
  }
  async function schedule(
    id: string,
    profileId: string,
    { delivery = "webhook", madeAt = "2026-06-10" } = {},
  ) {
    await sql`
      insert into export_schedules (id, user_id, profile_id, frequency, delivery, created_by, created_at)
      values (
        ${id}, ${merchant.userId}, ${profileId}, 'monthly', ${delivery}, ${merchant.userId}, ${madeAt}::text::timestamptz
      )`;
  }
  const runsOf = async (id: string) => {
    const rows = await sql<{ day: string; exportId: string }[]>`
      select to_char(first_day, 'YYYY-MM-DD') as day, export_id from export_schedule_runs where schedule_id = ${id}`;
    return [...rows];
  };
  const endAs = (exportId: string | undefined, status: "READY" | "FAILED", refusal: string | null = null) =>
    sql`update exports set status = ${status}, refusal = ${refusal} where id = ${exportId ?? ""}`;

  test("makes the file of a period once, with its job, also when two run at a time", async () => {
    await schedule("exs_one", await newProfile());
    const deps = depsOf();
    const lines: unknown[][] = [];
    deps.log.info = ((...line: unknown[]) => void lines.push(line)) as typeof deps.log.info;
    await Promise.all([runSchedules(deps, NOW), runSchedules(deps, NOW)]);
    await runSchedules(deps, NOW);
    expect(lines).toMatchObject([
      [{ scheduleId: "exs_one", lastDay: LAST_DAY }, "scheduled export requested"],
    ]);
    const [run, ...others] = await runsOf("exs_one");
    expect([run?.day, others]).toEqual(["2026-06-01", []]);
    expect(await sql`select from exports where user_id = ${merchant.userId}`).toHaveLength(1);
    const jobs = await sql`select from graphile_worker.jobs where key = ${`build_export:${run?.exportId}`}`;
    expect(jobs).toHaveLength(1);
  });

  test("does not end at one that fails: the others are made, and then it throws", async () => {
    await schedule("exs_a", await newProfile({ format: "csv" }));
    await schedule("exs_b", await newProfile());
    await expect(runSchedules(depsOf(), NOW)).rejects.toThrow("1 schedule(s) did not run");
    expect([await runsOf("exs_a"), (await runsOf("exs_b")).length]).toEqual([[], 1]);
  });

  test.each([PAGE - 1, PAGE])("reads on behind %d others", async (others) => {
    const profileId = await newProfile();
    await sql`
      insert into export_schedules (id, user_id, profile_id, frequency, delivery, created_by, created_at)
      select 'exs_' || lpad(n::text, 6, '0'), ${merchant.userId}, ${profileId}, 'monthly', 'mail', ${merchant.userId}, ${NOW}
      from generate_series(1, ${others}::int) as n`;
    await schedule("exs_last", profileId);
    await runSchedules(depsOf(), NOW);
    expect(await runsOf("exs_last")).toHaveLength(1);
    expect(await sql`select from export_schedule_runs`).toHaveLength(1);
  });

  test("announces each that has ended once, as what it became, by event or by mail", async () => {
    const ids = ["exs_ready", "exs_failed", "exs_refused", "exs_mail", "exs_no_mail"] as const;
    const profileId = await newProfile();
    for (const id of ids)
      await schedule(id, profileId, { delivery: id.endsWith("mail") ? "mail" : "webhook" });
    await runSchedules(depsOf(), NOW);
    const exports = await Promise.all(ids.map(async (id) => (await runsOf(id))[0]?.exportId));
    const [ready, failed, refused, mailed, notMailed] = exports;
    await endAs(ready, "READY");
    await endAs(failed, "FAILED");
    await endAs(refused, "FAILED", "too many rows");
    await endAs(mailed, "READY");
    await endAs(notMailed, "FAILED", "too many rows");
    for (let count = 0; count < 2; count++) await runSchedules(depsOf(), NOW);
    const events = await sql<{ type: string; subjectId: string; data: Record<string, unknown> }[]>`
      select type, subject_id, data from events where user_id = ${merchant.userId} and type like 'export.%'`;
    const byId = new Map(events.map((event) => [event.subjectId, event]));
    expect([...byId.keys()].sort()).toEqual([ready, failed, refused].map(String).sort());
    expect(events).toHaveLength(3);
    const downloadUrl = `https://pay.example/v1/transactions/exports/${ready}/download`;
    expect(byId.get(ready ?? "")).toMatchObject({
      ...{ type: "export.ready", data: { dateFrom: "2026-06-01", dateTo: LAST_DAY, downloadUrl } },
    });
    expect(byId.get(failed ?? "")).toMatchObject({
      type: "export.failed",
      data: { reason: "The export failed" },
    });
    expect(byId.get(refused ?? "")).toMatchObject({
      type: "export.failed",
      data: { reason: "too many rows" },
    });
    const notices = await sql`
      select kind, key, details ->> 'reason' as reason from notices where user_id = ${merchant.userId} order by kind`;
    expect([...notices]).toEqual([
      { kind: "export_failed", key: "export:exs_no_mail:2026-06-01", reason: "too many rows" },
      { kind: "export_ready", key: "export:exs_mail:2026-06-01", reason: null },
    ]);
  });
});
