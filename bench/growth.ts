/**
 * The storage a payment takes: bytes on disk and in the write-ahead log by table, and how many updates stayed on their page (HOT).
 * Links are created and paid by the service's own processes over HTTP, CONCURRENCY at a time, so that relays carry about 20 payments each.
 * Autovacuum has a server's defaults, checkpoints are as in the Postgres of `npm start`. Bytes do not depend on how busy the machine is,
 * except for full-page writes: a longer run has more checkpoints.
 */
import { loadavg } from "node:os";
import { newLinkId } from "../core/domain/ids.ts";
import { linkTag } from "../core/domain/link-tag.ts";
import { insertLink } from "../db/links/links.ts";
import { openDatabase, type Sql } from "../db/postgres/client.ts";
import { fundUsdc } from "../local/chain/usdc.ts";
import { makePayer, shapeA, signPayment } from "../tests/support/payer.ts";
import { type SeededMerchant, seedMerchant } from "../tests/support/seed.ts";
import { startWorld, type World } from "../tests/support/world.ts";
import { openWalReader, type WalKind } from "./growth-wal.ts";
import { describeMachine, printTable, type Row } from "./report.ts";

const PAYMENTS = 50_000;
const MERCHANTS = 20;
const AMOUNT_UNITS = 10_000n;
const CONCURRENCY = 48;
/** Links that are created and paid per batch: bounds the bench's own memory and the unread log. */
const ROUND = 1_000;
const LINKS_AT_ONCE = 8;
const SETTLE_TIMEOUT_MS = 120_000;

/**
 * Tables whose rows are deleted later, and how long after the payment: their size in a database that has run for long does not grow with
 * its payments. The same goes for the signed bytes in relay_attempts' TOAST.
 */
const KEPT = new Map([
  ["payment_leases", "an hour"],
  ["pay_amounts", "until the amount is reused"],
  ["open_payments", "until mined"],
  ["link_count_deltas", "a minute"],
  ["transaction_count_deltas", "a minute"],
  ["graphile_worker._private_jobs", "until done"],
  ["graphile_worker._private_job_queues", "until done"],
  ["blocks", "until final"],
  ["payment_requests", "an hour"],
  ["traces", "a day"],
  ["relay_charges", "30 days"],
  ["relay_budgets", "30 days"],
  ["events", "90 days"],
]);

type TableSize = {
  name: string;
  heap: number;
  toast: number;
  indexes: number;
  updates: number;
  hot: number;
  /** Of the heap: bytes of rows that readers see, of those replaced or deleted, and of no row. */
  live: number;
  dead: number;
  free: number;
};
type Order = { linkId: string; body: string };

/** `bun run bench growth [payments]` */
export async function run(): Promise<void> {
  const payments = Number(process.argv[3] ?? PAYMENTS);
  if (!Number.isInteger(payments) || payments < 1)
    throw new Error(`payments must be a whole number from 1, got ${process.argv[3]}`);
  const world = await startWorld({ env: { LOG_LEVEL: "warn", RATE_LIMITS: "0" } });
  const sql = openDatabase(world.db.url, { name: "bench", maxConnections: LINKS_AT_ONCE });
  try {
    await report(world, sql, payments);
  } finally {
    await sql.end();
    await world.stop();
  }
}

async function report(world: World, sql: Sql, payments: number): Promise<void> {
  const merchants: SeededMerchant[] = [];
  for (let made = 0; made < MERCHANTS; made++) merchants.push(await seedMerchant(sql));
  const wal = await openWalReader(world.db.url);
  const before = await readSizes(sql);
  const indexesBefore = await readIndexSizes(sql);
  let failures = 0;
  for (let done = 0; done < payments; done += ROUND) {
    const count = Math.min(ROUND, payments - done);
    failures += await payRound(world, sql, { merchants, count });
    await wal.read();
    if ((done / ROUND) % 10 === 9) console.log(`· ${done + count} payments`);
  }
  const left = await waitUntilConfirmed(sql);
  await wal.read();
  const after = await readSizes(sql);
  const [relays] = await sql<{ relays: number }[]>`select count(*)::int as relays from relays`;
  printTable(toRows({ before, after, walByTable: wal.byTable, payments }));
  const indexes = { before: indexesBefore, after: await readIndexSizes(sql) };
  printTable(toIndexRows({ ...indexes, walByRelation: wal.byRelation, payments }));
  printTable(toKindRows(wal.byKind, payments));
  const total = wal.total();
  const moved = sumUpdates(after) - sumUpdates(before);
  const hot = sumHot(after) - sumHot(before);
  console.log(
    `\n${JSON.stringify({
      bench: "growth",
      payments,
      failures,
      "not confirmed": left,
      "payments/relay": Math.round((payments / (relays?.relays || 1)) * 10) / 10,
      "disk B/payment": Math.round((sumBytes(after) - sumBytes(before)) / payments),
      "of that kept": Math.round((keptBytes(after) - keptBytes(before)) / payments),
      "WAL B/payment": Math.round(total.bytes / payments),
      "of that full pages": Math.round(total.fullPageBytes / payments),
      "HOT %": moved === 0 ? 0 : Math.round((1000 * hot) / moved) / 10,
      load: loadavg().map((value) => Math.round(value * 10) / 10),
      machine: describeMachine(),
    })}`,
  );
  await wal.close();
}

/** Creates `count` links with the service's own statement, pays each once, and returns how many were not answered as settled. */
async function payRound(
  world: World,
  sql: Sql,
  { merchants, count }: { merchants: readonly SeededMerchant[]; count: number },
): Promise<number> {
  const orders: Order[] = new Array(count);
  const payers = Array.from({ length: count }, makePayer);
  await fundUsdc(
    world.chain.rpcUrl,
    payers.map((payer) => payer.address),
    AMOUNT_UNITS * 2n,
  );
  const validBefore = Math.floor(Date.now() / 1000) + 3_600;
  await inParallel(LINKS_AT_ONCE, payers, async (payer, index) => {
    const merchant = merchants[index % merchants.length];
    if (!merchant) throw new Error("there is no merchant");
    const id = newLinkId();
    await sql.begin((tx) =>
      insertLink(tx, {
        id,
        tag: linkTag(id),
        userId: merchant.userId,
        network: merchant.network,
        amountUnits: AMOUNT_UNITS,
        description: `Order ${index}`,
        expiresInHours: 24,
      }),
    );
    const payment = await signPayment(payer, {
      to: merchant.address,
      amountUnits: AMOUNT_UNITS,
      validBefore,
    });
    orders[index] = { linkId: id, body: JSON.stringify(shapeA(payment)) };
  });
  let failures = 0;
  await inParallel(CONCURRENCY, orders, async (order) => {
    if (!(await payOne(world.baseUrl, order))) failures += 1;
  });
  return failures;
}

async function payOne(baseUrl: string, { linkId, body }: Order): Promise<boolean> {
  const response = await fetch(`${baseUrl}/v1/x402/${linkId}/pay`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body,
  });
  const answer = (await response.json()) as { success: boolean; settled?: boolean };
  return response.status === 200 && answer.success && answer.settled === true;
}

async function inParallel<Item>(
  width: number,
  items: readonly Item[],
  work: (item: Item, index: number) => Promise<void>,
): Promise<void> {
  const queue = items.entries();
  const drain = async () => {
    for (const [index, item] of queue) await work(item, index);
  };
  await Promise.all(Array.from({ length: width }, drain));
}

/** Waits until the last relays have their receipts; returns how many payments and relays are still open after the time limit. */
async function waitUntilConfirmed(sql: Sql): Promise<number> {
  const deadlineMs = Date.now() + SETTLE_TIMEOUT_MS;
  for (;;) {
    const [row] = await sql<{ open: number }[]>`
      select
        (select count(*) from payments where state not in ('CONFIRMED', 'FAILED'))::int
        + (select count(*) from relays where state not in ('CONFIRMED', 'LOST'))::int as open`;
    if (!row?.open || Date.now() > deadlineMs) return row?.open ?? 0;
    await Bun.sleep(250);
  }
}

async function readSizes(sql: Sql): Promise<Map<string, TableSize>> {
  await sql`select pg_stat_clear_snapshot()`;
  await sql`create extension if not exists pgstattuple`;
  const rows = await sql<TableSize[]>`
    select
      case when schemaname = 'public' then relname::text else schemaname || '.' || relname end as name,
      pg_relation_size(relid)::float8 as heap,
      (pg_table_size(relid) - pg_relation_size(relid))::float8 as toast,
      pg_indexes_size(relid)::float8 as indexes,
      coalesce(n_tup_upd, 0)::float8 as updates,
      coalesce(n_tup_hot_upd, 0)::float8 as hot,
      rows.tuple_len::float8 as live,
      rows.dead_tuple_len::float8 as dead,
      rows.free_space::float8 as free
    from pg_stat_user_tables
    cross join lateral pgstattuple(relid) rows`;
  return new Map(rows.map((row) => [row.name, row]));
}

async function readIndexSizes(sql: Sql): Promise<Map<string, number>> {
  const rows = await sql<{ name: string; bytes: number }[]>`
    select indexrelname::text as name, pg_relation_size(indexrelid)::float8 as bytes
    from pg_stat_user_indexes
    where schemaname = 'public'`;
  return new Map(rows.map(({ name, bytes }) => [name, bytes]));
}

/** Rows that are never deleted. */
function keptBytes(sizes: Map<string, TableSize>): number {
  const kept = [...sizes.values()].filter(({ name }) => !KEPT.has(name));
  return kept.reduce(
    (sum, { name, heap, toast, indexes }) => sum + heap + indexes + (name === "relay_attempts" ? 0 : toast),
    0,
  );
}

/** The kinds of records that fill the log, largest first. */
function toKindRows(byKind: ReadonlyMap<string, WalKind>, payments: number): Row[] {
  return [...byKind]
    .map(([kind, { records, bytes }]) => ({
      "kind of record": kind,
      "records/payment": Math.round((100 * records) / payments) / 100,
      "WAL B/payment": Math.round(bytes / payments),
    }))
    .filter((row) => row["WAL B/payment"] > 0)
    .sort((a, b) => b["WAL B/payment"] - a["WAL B/payment"]);
}

/** The indexes that grow, largest first; of the log also what the tables themselves write. */
function toIndexRows(given: {
  before: ReadonlyMap<string, number>;
  after: ReadonlyMap<string, number>;
  walByRelation: ReadonlyMap<string, number>;
  payments: number;
}): Row[] {
  const { before, after, walByRelation, payments } = given;
  const names = new Set([...after.keys(), ...walByRelation.keys()]);
  return [...names]
    .map((name) => ({
      "index or table": name,
      "disk B/payment": after.has(name)
        ? Math.round(((after.get(name) ?? 0) - (before.get(name) ?? 0)) / payments)
        : "",
      "WAL B/payment": Math.round((walByRelation.get(name) ?? 0) / payments),
    }))
    .filter((row) => row["WAL B/payment"] > 0)
    .sort((a, b) => b["WAL B/payment"] - a["WAL B/payment"]);
}

function toRows(given: {
  before: Map<string, TableSize>;
  after: Map<string, TableSize>;
  walByTable: ReadonlyMap<string, number>;
  payments: number;
}): Row[] {
  const { before, after, walByTable, payments } = given;
  const names = [...new Set([...after.keys(), ...walByTable.keys()])];
  const each = (bytes: number) => Math.round(bytes / payments);
  const rows = names.map((name) => {
    const [now, then] = [after.get(name), before.get(name)];
    const grown = (key: keyof Omit<TableSize, "name">) => (now?.[key] ?? 0) - (then?.[key] ?? 0);
    const disk = grown("heap") + grown("toast") + grown("indexes");
    return {
      table: name,
      "disk B/payment": each(disk),
      heap: each(grown("heap")),
      "of it rows": each(grown("live")),
      dead: each(grown("dead")),
      free: each(grown("free")),
      toast: each(grown("toast")),
      indexes: each(grown("indexes")),
      "WAL B/payment": each(walByTable.get(name) ?? 0),
      "updates/payment": Math.round((100 * grown("updates")) / payments) / 100,
      "HOT %": grown("updates") > 0 ? Math.round((100 * grown("hot")) / grown("updates")) : "",
      "kept for": KEPT.get(name) ?? "",
    } satisfies Row;
  });
  return rows
    .filter((row) => row["disk B/payment"] > 0 || row["WAL B/payment"] > 0)
    .sort((a, b) => b["disk B/payment"] + b["WAL B/payment"] - a["disk B/payment"] - a["WAL B/payment"]);
}

const sumBytes = (sizes: Map<string, TableSize>) =>
  [...sizes.values()].reduce((sum, { heap, toast, indexes }) => sum + heap + toast + indexes, 0);
const sumUpdates = (sizes: Map<string, TableSize>) =>
  [...sizes.values()].reduce((sum, row) => sum + row.updates, 0);
const sumHot = (sizes: Map<string, TableSize>) => [...sizes.values()].reduce((sum, row) => sum + row.hot, 0);
