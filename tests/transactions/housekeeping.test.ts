import { afterAll, beforeAll, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import type { Hex } from "../../core/domain/networks.ts";
import { openLog } from "../../core/runtime/log.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { housekeeping } from "../../worker/jobs/housekeeping.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { seedLink, seedMerchant } from "../support/seed.ts";
import { insertHistory } from "./history.ts";

/** What a step deletes at once. */
const STATEMENT_ROWS = 10_000;
let db: TestDatabase;
let sql: Sql;
let userId: string;
let address: Hex;
const log = openLog("test", "silent");
const clean = () => housekeeping({ sql, log, config: { eventsKeptDays: 90 } }, {});

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 4 });
  ({ userId, address } = await seedMerchant(sql, { network: "base" }));
}, 120_000);
afterAll(async () => {
  await sql?.end({ timeout: 1 });
  await db?.drop();
});

/** An event; a trigger adds its delivery. */
async function newEvent(subjectId: string): Promise<bigint> {
  const [row] = await sql<{ id: bigint }[]>`
    insert into events (user_id, type, subject_id, data)
    values (${userId}, 'wallet.created', ${subjectId}, '{}')
    returning id`;
  return row?.id ?? 0n;
}

test("challenges are deleted after their expiry, not before", async () => {
  for (const [id, expires] of [
    ["ch_over", "-1 second"],
    ["ch_kept", "1 minute"],
  ] as const)
    await sql`
      insert into challenges (id, user_id, purpose, challenge, expires_at)
      values (${id}, ${userId}, 'login', ${randomBytes(48)}, now() + ${expires}::interval)`;
  await clean();
  expect((await sql`select id from challenges`).map((row) => row.id)).toEqual(["ch_kept"]);
});

test("sessions are deleted after either of their ends", async () => {
  for (const [id, expires, absolute] of [
    ["over", "-1 second", "1 hour"],
    ["absolute", "1 hour", "-1 second"],
    ["kept", "1 minute", "1 minute"],
  ] as const)
    await sql`
      insert into sessions (id, user_id, method, expires_at, absolute_end_at)
      values (${id}, ${userId}, 'otp', now() + ${expires}::interval, now() + ${absolute}::interval)`;
  await clean();
  expect((await sql`select id from sessions`).map((row) => row.id)).toEqual(["kept"]);
});

test("idempotent responses are kept seven days", async () => {
  for (const [key, age] of [
    ["over", "7 days 1 second"],
    ["kept", "6 days 23 hours"],
  ] as const)
    await sql`
      insert into idempotency_keys (scope, key, request_hash, created_at)
      values ('test', ${key}, ${randomBytes(32)}, now() - ${age}::interval)`;
  await clean();
  expect((await sql`select key from idempotency_keys`).map((row) => row.key)).toEqual(["kept"]);
});

test("more rows than fit into one statement are deleted in the same run", async () => {
  await sql`
    insert into idempotency_keys (scope, key, request_hash, created_at)
    select 'test', 'many-' || n, ${randomBytes(32)}, now() - interval '8 days'
    from generate_series(1, ${STATEMENT_ROWS + 1}) as n`;
  await clean();
  expect(await sql`select from idempotency_keys where key like 'many-%'`).toHaveLength(0);
});

test("error: a step that fails keeps no other from its work, is logged, and has the job tried again", async () => {
  const warned: unknown[] = [];
  const failing = { ...log, warn: (given: unknown) => void warned.push(given) } as typeof log;
  await sql`
    insert into challenges (id, user_id, purpose, challenge, expires_at)
    values ('ch_left', ${userId}, 'login', ${randomBytes(48)}, now() - interval '1 second')`;
  await sql`alter table transaction_count_deltas rename to transaction_count_deltas_elsewhere`;
  try {
    await expect(housekeeping({ sql, log: failing, config: { eventsKeptDays: 90 } }, {})).rejects.toThrow(
      "1 housekeeping step(s) failed",
    );
  } finally {
    await sql`alter table transaction_count_deltas_elsewhere rename to transaction_count_deltas`;
  }
  expect(warned).toMatchObject([{ step: "foldedTransactions" }]);
  expect(await sql`select from challenges where id = 'ch_left'`).toHaveLength(0);
});

test("a run that finds nothing to do says nothing", async () => {
  const lines: unknown[] = [];
  const silent = { ...log, info: (given: unknown) => void lines.push(given) } as typeof log;
  const run = () => housekeeping({ sql, log: silent, config: { eventsKeptDays: 90 } }, {});
  await run();
  lines.length = 0;
  await run();
  expect(lines).toEqual([]);
  await sql`
    insert into idempotency_keys (scope, key, request_hash, created_at)
    values ('test', 'said', ${randomBytes(32)}, now() - interval '8 days')`;
  await run();
  expect(lines).toEqual([{ done: { idempotency_keys: 1 } }]);
});

test("relay budgets are kept 30 days", async () => {
  for (const [subject, age] of [
    ["over", 31],
    ["kept", 30],
  ] as const)
    await sql`
      insert into relay_budgets (network, scope, subject, day)
      values ('base', 'MERCHANT', ${subject}, (now() at time zone 'utc')::date - ${age}::int)`;
  await clean();
  expect((await sql`select subject from relay_budgets`).map((row) => row.subject)).toEqual(["kept"]);
});

test("relay charges are kept as long as their budgets, leases of payments an hour", async () => {
  for (const [subject, age] of [
    ["over", 31],
    ["kept", 30],
  ] as const)
    await sql`
      insert into relay_charges (relay_id, network, scope, subject, day, items, amount)
      values (1, 'base', 'MERCHANT', ${subject}, (now() at time zone 'utc')::date - ${age}::int, 1, 1)`;
  await sql`
    insert into payment_leases (payment_id, until)
    values ('pay_over', now() - interval '1 hour 1 second'), ('pay_kept', now() - interval '59 minutes')`;
  await clean();
  expect((await sql`select subject from relay_charges`).map((row) => row.subject)).toEqual(["kept"]);
  expect((await sql`select payment_id from payment_leases`).map((row) => row.paymentId)).toEqual([
    "pay_kept",
  ]);
});

test("a job that was replaced while it ran, and did not complete, has not failed: its successor remains", async () => {
  const jobs = () => sql<{ task: string; key: string | null }[]>`
    select task_identifier as task, key
    from graphile_worker.jobs
    where task_identifier in ('relay_payments', 'issue_documents')
    order by task_identifier, key`;
  const add = () =>
    sql`select graphile_worker.add_job('relay_payments', '{}'::json, job_key => 'relay_payments:base')`;
  await add();
  await sql`select graphile_worker.add_job('issue_documents', '{}'::json)`;
  const lock = (lockedBy: string | null) => sql`
    update graphile_worker._private_jobs
    set locked_by = ${lockedBy}, locked_at = case when ${lockedBy}::text is null then null else now() end
    where key is null or key = 'relay_payments:base'`;
  await lock("a worker that dies");
  await add();
  await sql`update graphile_worker._private_jobs set attempts = max_attempts where key is null`;
  await clean();
  expect(await jobs()).toHaveLength(3);
  await lock(null);
  await clean();
  expect([...(await jobs())]).toEqual([
    { task: "issue_documents", key: null },
    { task: "relay_payments", key: "relay_payments:base" },
  ]);
});

test("codes are kept two days, export files with their chunks seven", async () => {
  for (const [id, age] of [
    ["over", "2 days 1 second"],
    ["kept", "1 day"],
  ] as const)
    await sql`
      insert into otps (id, user_id, code_hmac, expires_at, superseded_at, created_at)
      values (${id}, ${userId}, ${randomBytes(32)}, now(), now(), now() - ${age}::interval)`;
  for (const [id, expires] of [
    ["exp_over", "-1 second"],
    ["exp_kept", "1 hour"],
  ] as const) {
    await sql`
      insert into exports (id, user_id, format, request, expires_at)
      values (${id}, ${userId}, 'csv', '{}', now() + ${expires}::interval)`;
    await sql`insert into export_chunks (export_id, attempt, position, bytes) values (${id}, 1, 0, 'x')`;
  }
  await clean();
  expect((await sql`select id from otps`).map((row) => row.id)).toEqual(["kept"]);
  expect((await sql`select export_id from export_chunks`).map((row) => row.exportId)).toEqual(["exp_kept"]);
});

test("deliveries are kept thirty days, pending ones longer", async () => {
  await sql`insert into webhook_endpoints (id, user_id, url, sealed_secret) values ('whe_x', ${userId}, 'https://x.example/', ${randomBytes(9)})`;
  for (const [id, state, age] of [
    ["whd_over", "DELIVERED", "30 days 1 second"],
    ["whd_failed", "FAILED", "31 days"],
    ["whd_waiting", "PENDING", "31 days"],
    ["whd_kept", "DELIVERED", "29 days"],
  ] as const)
    await sql`
      update webhook_deliveries
      set id = ${id}, state = ${state}, created_at = now() - ${age}::interval
      where event_id = ${await newEvent(id)}`;
  await clean();
  expect((await sql`select id from webhook_deliveries order by id`).map((row) => row.id)).toEqual([
    "whd_kept",
    "whd_waiting",
  ]);
});

test("links past their expiry are marked once, with one event each, by two concurrent workers", async () => {
  const count = 2_500;
  await sql`
    insert into payment_links (id, user_id, network, recipient, amount_units, description, status, expires_at, created_at)
    select
      'link_' || lpad(n::text, 22, '0'), ${userId}, 'base', ${address}::bytea, 1, 'd',
      case n % 5 when 0 then 'PENDING' else 'ACTIVE' end, now() + case when n % 5 = 1 then interval '1 hour' else interval '-1 second' end,
      now() - interval '1 day'
    from generate_series(1, ${count}::int) n`;
  await Promise.all([clean(), clean()]);
  const rows = await sql`select status, count(*) as n from payment_links group by 1 order by 1`;
  expect(rows.map((row) => [row.status, Number(row.n)])).toEqual([
    ["ACTIVE", count / 5],
    ["EXPIRED", (count * 3) / 5],
    ["PENDING", count / 5],
  ]);
  const [events] = await sql`
    select count(*) as n, count(distinct subject_id) as links from events where type = 'payment_link.expired'`;
  expect([Number(events?.n), Number(events?.links)]).toEqual([(count * 3) / 5, (count * 3) / 5]);
  await clean();
  const [again] = await sql`select count(*) as n from events where type = 'payment_link.expired'`;
  expect(Number(again?.n)).toBe((count * 3) / 5);
});

test("permanently failed jobs are deleted after a week", async () => {
  for (const [key, age] of [
    ["over", "8 days"],
    ["kept", "6 days"],
  ] as const) {
    await sql`select graphile_worker.add_job('nothing', job_key => ${key}, max_attempts => 1)`;
    await sql`
      update graphile_worker._private_jobs
      set attempts = 1, run_at = now() - ${age}::interval
      where key = ${key}`;
  }
  await sql`select graphile_worker.add_job('nothing', job_key => 'waiting')`;
  await clean();
  const keys = (
    await sql`select key from graphile_worker.jobs where task_identifier = 'nothing' order by key`
  ).map((row) => row.key);
  expect(keys).toEqual(["kept", "waiting"]);
});

test("counter deltas are folded and deleted, and running again changes nothing", async () => {
  await insertHistory(
    sql,
    userId,
    Array.from({ length: 20 }, (_, n) => ({ amountUnits: BigInt(n + 1) })),
  );
  await Promise.all([clean(), clean()]);
  await clean();
  const [row] = await sql`
    select
      (select count(*) from transaction_count_deltas) as deltas,
      (select sum(count) from transaction_counts where user_id = ${userId} and day = 'infinity' and network <> '*') as history,
      (select count(*) from link_count_deltas) as link_deltas,
      (select sum(count) from link_counts where user_id = ${userId}) as links,
      (select count(*) from payment_links where user_id = ${userId}) as stored`;
  expect([row?.deltas, row?.history, row?.linkDeltas]).toEqual([0n, 20n, 0n]);
  expect(row?.links).toBe(row?.stored);
});

test("created links count immediately, without deltas, even while others are folded", async () => {
  const merchant = await seedMerchant(sql);
  await Promise.all([
    ...Array.from({ length: 20 }, () => seedLink(sql, merchant, { amountUnits: 7n })),
    ...[clean(), clean()],
  ]);
  const [row] = await sql`
    select
      count, amount_units,
      (select count(*) from link_count_deltas where user_id = ${merchant.userId}) as differences
    from link_counts
    where user_id = ${merchant.userId} and status = 'ACTIVE'`;
  expect(row).toMatchObject({ count: 20n, amountUnits: 140n, differences: 0n });
});

/** As if the queue had given up on a job, or had never had it. */
async function loseJobs(): Promise<void> {
  await sql`
    select graphile_worker.complete_jobs(array(select id from graphile_worker.jobs))`;
}

const jobKeys = async () =>
  (await sql<{ key: string }[]>`select key from graphile_worker.jobs order by key`).map(({ key }) => key);

test("a due message without a job is still sent", async () => {
  await sql`delete from webhook_endpoints`;
  await sql`delete from exports`;
  await sql`
    insert into webhook_endpoints (id, user_id, url, sealed_secret)
    values ('whe_stray', ${userId}, 'https://example.com/', '\\x00')`;
  await newEvent("stray");
  await loseJobs();
  const dueSince = (seconds: number, leaseS: number | null, enabled = true) =>
    sql.begin(async (tx) => {
      await tx`update webhook_endpoints set enabled = ${enabled}`;
      await tx`
      update webhook_deliveries
      set next_try_at = now() - make_interval(secs => ${seconds}), lease_until = now() + make_interval(secs => ${leaseS}::int)`;
    });
  for (const [seconds, lease, enabled] of [
    // later, a moment ago, in flight, disabled
    [-60, null, true],
    [1, null, true],
    [120, 30, true],
    [120, null, false],
  ] as const) {
    await dueSince(seconds, lease, enabled);
    await clean();
    expect(await jobKeys()).toEqual([]);
  }
  await sql`update webhook_deliveries set state = 'DELIVERED'`;
  await dueSince(120, null);
  await clean();
  expect(await jobKeys()).toEqual([]);
  await sql`update webhook_deliveries set state = 'PENDING'`;
  for (const lease of [null, -1]) {
    await dueSince(120, lease);
    await clean();
    expect(await jobKeys()).toEqual(["deliver_webhooks:now"]);
    await loseJobs();
  }
});

test("an export without a job is created again, or FAILED after three attempts", async () => {
  await sql`delete from webhook_endpoints`;
  await sql`delete from exports`;
  await loseJobs();
  for (const [name, status, attempts] of [
    ["new", "QUEUED", 0],
    ["died", "RUNNING", 2],
    ["deadly", "RUNNING", 3],
    ["kept", "RUNNING", 3],
    ["ready", "READY", 1],
  ] as const)
    await sql`
      insert into exports (id, user_id, format, request, status, attempts, created_at, expires_at)
      values (
        ${`exp_${name}`}, ${userId}, 'csv', '{}', ${status}, ${attempts}, now() - interval '2 minutes', now() + interval '1 day'
      )`;
  await sql`select graphile_worker.add_job('build_export', '{}'::json, job_key => 'build_export:exp_kept')`;
  // the queue has given up on this one
  await sql`
    select graphile_worker.add_job('build_export', '{}'::json, job_key => 'build_export:exp_deadly', max_attempts => 1)`;
  await sql`
    select graphile_worker.permanently_fail_jobs(array(
      select id from graphile_worker.jobs where key = 'build_export:exp_deadly'
    ))`;
  const woken = Promise.withResolvers<string>();
  const listening = await sql.listen("outcome", woken.resolve);
  await clean();
  // requests that wait for the one that has ended
  expect(await woken.promise).toBe("exp_deadly");
  await listening.unlisten();
  const rows = await sql<{ id: string; status: string }[]>`select id, status from exports order by id`;
  expect(rows.map(({ id, status }) => `${id} ${status}`)).toEqual([
    "exp_deadly FAILED",
    "exp_died RUNNING",
    "exp_kept RUNNING",
    "exp_new QUEUED",
    "exp_ready READY",
  ]);
  expect(await jobKeys()).toEqual([
    "build_export:exp_deadly",
    "build_export:exp_died",
    "build_export:exp_kept",
    "build_export:exp_new",
  ]);
  await loseJobs();
});
