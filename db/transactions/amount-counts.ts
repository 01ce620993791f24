/** Counts rows between two amounts: whole buckets from counters (db/schema/transactions.sql), the two partial ones by index from their smaller side. */
import { type SQL, sql } from "drizzle-orm";
import { PgDialect } from "drizzle-orm/pg-core";
import { NETWORK_IDS } from "../../core/domain/networks.ts";
import { TRANSACTION_TYPES } from "../../core/domain/payment.ts";
import type { TransactionFilter } from "../../core/domain/transaction.ts";
import { runBuilt, type Tx } from "../postgres/client.ts";
import { transactions } from "../schema.ts";
import { cellConditions, countPending } from "./counts.ts";
import { amountConditions, isEveryCell, isInCells, isOwnedBy, orEvery, SETTLED_STATUSES } from "./filter.ts";

const dialect = new PgDialect();

/** Index entries read before a bucket's other side is tried. */
const THIN_SIDE_ROWS = 5_000;
const LAST_BUCKET = 1_000_000_000;

/** Rows of a filter without search and dates. Exact at the snapshot of `tx`. */
export async function countByAmount(tx: Tx, userId: string, filter: TransactionFilter): Promise<number> {
  const [pending, settled] = await Promise.all([
    countPending(tx, userId, filter),
    countSettledByAmount(tx, userId, filter),
  ]);
  return pending + settled;
}

/** Of these, what is not PENDING. */
export function countSettledByAmount(tx: Tx, userId: string, filter: TransactionFilter): Promise<number> {
  return countSettled({ tx, userId, filter });
}

type Scope = { tx: Tx; userId: string; filter: TransactionFilter };
type Bucket = { number: number; start: bigint; end: bigint };

async function countSettled(scope: Scope): Promise<number> {
  const { minUnits, maxUnits } = scope.filter;
  const from = minUnits ?? 0n;
  const low = bucketOf(from);
  if (maxUnits === undefined)
    return (await sumBuckets(scope, low.number + 1)) + (await countInBucket(scope, low, from, low.end));
  const before = maxUnits + 1n;
  if (before <= from) return 0;
  const high = bucketOf(maxUnits);
  if (high.number === low.number) return countInBucket(scope, low, from, before);
  return (
    (await countInBucket(scope, low, from, low.end)) +
    (await sumBuckets(scope, low.number + 1, high.number - 1)) +
    (await countInBucket(scope, high, high.start, before))
  );
}

/** transaction_amount_bucket of db/schema/transactions.sql, with its bounds: [start, end). */
export function bucketOf(units: bigint): Bucket {
  const text = units.toString();
  const width = text.length > 3 ? 10n ** BigInt(text.length - 3) : 1n;
  const start = (units / width) * width;
  return { number: text.length * 1000 + Number(text.slice(0, 3).padEnd(3, "0")), start, end: start + width };
}

/** Rows of the buckets first to last, both included; without a last one, of all from the first on. */
async function sumBuckets(scope: Scope, first: number, last?: number): Promise<number> {
  const { tx, userId, filter } = scope;
  if (isEveryCell(filter) || last !== undefined) return addBuckets(scope, first, last ?? LAST_BUCKET);
  const [ends] = await tx<{ lowest: number | null; highest: number | null }[]>`
    select min(bucket) as lowest, max(bucket) as highest
    from transaction_amount_counts
    where user_id = ${userId} and network = '*' and type = '*' and status = '*'`;
  const isShorter = rankOf(ends?.highest ?? 0) - rankOf(first) <= rankOf(first) - rankOf(ends?.lowest ?? 0);
  if (isShorter) return addBuckets(scope, first, LAST_BUCKET);
  const [all, below] = await Promise.all([countAllTime(scope), addBuckets(scope, 0, first - 1)]);
  return all - below;
}

/** Buckets below this one, of 900 a digit. */
function rankOf(bucket: number): number {
  return Math.floor(bucket / 1000) * 900 + (bucket % 1000);
}

/** Settled rows of the filter's cells, of any amount. */
async function countAllTime({ tx, userId, filter }: Scope): Promise<number> {
  const [row] = await tx<{ count: bigint }[]>`
    select coalesce(sum(count), 0) as count
    from (
      select count
      from transaction_counts
      where user_id = ${userId} and day = 'infinity' and network <> '*' ${cellConditions(tx, filter)}
      union all
      select count
      from transaction_count_deltas
      where owner_key(user_id) = owner_key(${userId}) and user_id = ${userId} ${cellConditions(tx, filter)}
    ) parts`;
  return Number(row?.count ?? 0n);
}

async function addBuckets({ tx, userId, filter }: Scope, first: number, last: number): Promise<number> {
  const cells = isEveryCell(filter)
    ? tx`and network = '*' and type = '*' and status = '*'`
    : cellConditions(tx, everyNamed(filter));
  const [row] = await tx<{ count: bigint }[]>`
    select coalesce(sum(count), 0) as count
    from (
      select count
      from transaction_amount_counts
      where user_id = ${userId} and bucket between ${first} and ${last} ${cells}
      union all
      select count
      from transaction_count_deltas
      where owner_key(user_id) = owner_key(${userId}) and user_id = ${userId} and amount_bucket between ${first} and ${last} ${cellConditions(tx, filter)}
    ) parts`;
  return Number(row?.count ?? 0n);
}

/** With every value named, each cell's buckets are one range of the primary key. */
function everyNamed(filter: TransactionFilter): TransactionFilter {
  return {
    ...filter,
    types: orEvery(filter.types, TRANSACTION_TYPES),
    statuses: orEvery(filter.statuses, SETTLED_STATUSES),
    networks: orEvery(filter.networks, NETWORK_IDS),
  };
}

/** Rows of [from, before), which lies inside one bucket. */
async function countInBucket(scope: Scope, bucket: Bucket, from: bigint, before: bigint): Promise<number> {
  const isWhole = from <= bucket.start && before >= bucket.end;
  if (!isWhole) {
    const side = await countRange(scope, from, before, THIN_SIDE_ROWS);
    if (side.read < THIN_SIDE_ROWS) return side.matched;
  }
  const whole = await sumBuckets(scope, bucket.number, bucket.number);
  if (isWhole) return whole;
  const [below, above] = await Promise.all([
    countRange(scope, bucket.start, from),
    countRange(scope, before, bucket.end),
  ]);
  return whole - below.matched - above.matched;
}

/** Of the first `limit` index entries in [from, before), or of all: how many there are, and how many are of the filter's cells. */
async function countRange(
  { tx, userId, filter }: Scope,
  from: bigint,
  before: bigint,
  limit?: number,
): Promise<{ read: number; matched: number }> {
  if (from >= before) return { read: 0, matched: 0 };
  const range = amountConditions({ minUnits: from, maxUnits: before - 1n });
  const chosen: SQL = isInCells(filter) ?? sql`true`;
  // ordered as the amount index, which answers it alone
  const query = sql`
    select count(*) as read, count(*) filter (where ${chosen}) as matched
    from (
      select cell
      from transactions
      where ${isOwnedBy(userId)} and ${transactions.isSettled} and ${range}
      order by amount_units
      limit ${limit ?? null}
    ) transactions`;
  const [row] = await runBuilt<{ read: bigint; matched: bigint }>(tx, {
    toSQL: () => dialect.sqlToQuery(query),
  });
  return { read: Number(row?.read ?? 0n), matched: Number(row?.matched ?? 0n) };
}
