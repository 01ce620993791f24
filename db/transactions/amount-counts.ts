/** Counts rows between two amounts: whole buckets from counters (db/schema/transactions.sql), the two partial ones by index from their smaller side. */
import { type SQL, sql } from "drizzle-orm";
import { PgDialect } from "drizzle-orm/pg-core";
import { NETWORK_IDS } from "../../core/domain/networks.ts";
import { TRANSACTION_TYPES } from "../../core/domain/payment.ts";
import type { TransactionFilter } from "../../core/domain/transaction.ts";
import { runBuilt, type Tx } from "../postgres/client.ts";
import { transactions } from "../schema.ts";
import { cellConditions, countPending } from "./counts.ts";
import {
  amountConditions,
  counterCells,
  isEveryCell,
  isInCells,
  isOwnedBy,
  orEvery,
  SETTLED_STATUSES,
} from "./filter.ts";

const dialect = new PgDialect();

/** Index entries read before a bucket's other side is tried, and the factor by which this grows when neither side was finished. */
const THIN_SIDE_ROWS = 5_000;
const THIN_SIDE_GROWTH = 4;
const LAST_BUCKET = 1_000_000_000;
/** Buckets of one wide counter, and the cell of those that count all cells. */
const WIDE_BUCKETS = 100;
const EVERY_CELL = 0;

/** Rows of a filter without search and dates. Exact at the snapshot of `tx`. */
export async function countByAmount(tx: Tx, userId: string, filter: TransactionFilter): Promise<number> {
  return sum(countPending(tx, userId, filter), countSettledByAmount(tx, userId, filter));
}

/** Of these, the rows that are not PENDING. */
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
    return sum(sumBuckets(scope, low.number + 1), countInBucket(scope, low, from, low.end));
  const before = maxUnits + 1n;
  if (before <= from) return 0;
  const high = bucketOf(maxUnits);
  if (high.number === low.number) return countInBucket(scope, low, from, before);
  return sum(
    countInBucket(scope, low, from, low.end),
    sumBuckets(scope, low.number + 1, high.number - 1),
    countInBucket(scope, high, high.start, before),
  );
}

async function sum(...parts: readonly Promise<number>[]): Promise<number> {
  return (await Promise.all(parts)).reduce((total, part) => total + part, 0);
}

/** transaction_amount_bucket of db/schema/transactions.sql, with its bounds: [start, end). */
export function bucketOf(units: bigint): Bucket {
  const text = units.toString();
  const width = text.length > 3 ? 10n ** BigInt(text.length - 3) : 1n;
  const start = (units / width) * width;
  return { number: text.length * 1000 + Number(text.slice(0, 3).padEnd(3, "0")), start, end: start + width };
}

/**
 * Rows of the buckets from first to last, both inclusive; without a last one, of all from the first. Whole hundreds of buckets are one counter
 * each, the rest at both ends are at most a hundred.
 */
async function sumBuckets({ tx, userId, filter }: Scope, first: number, last = LAST_BUCKET): Promise<number> {
  const wideFrom = Math.ceil(first / WIDE_BUCKETS) * WIDE_BUCKETS;
  const wideBefore = Math.max(wideFrom, Math.floor((last + 1) / WIDE_BUCKETS) * WIDE_BUCKETS);
  const narrow = isEveryCell(filter)
    ? tx`and network = '*' and type = '*' and status = '*'`
    : cellConditions(tx, everyNamed(filter));
  const wide = isEveryCell(filter) ? [EVERY_CELL] : counterCells(everyNamed(filter));
  const [row] = await tx<{ count: bigint }[]>`
    select coalesce(sum(count), 0) as count
    from (
      select count
      from transaction_amount_counts
      where user_id = ${userId} and bucket between ${first} and ${Math.min(last, wideFrom - 1)} ${narrow}
      union all
      select count
      from transaction_wide_amount_counts
      where owner = owner_key(${userId})
        and cell = any(${wide}::smallint[])
        and bucket >= ${wideFrom}
        and bucket < ${wideBefore}
      union all
      select count
      from transaction_amount_counts
      where user_id = ${userId} and bucket between ${wideBefore} and ${last} ${narrow}
      union all
      select count
      from transaction_count_deltas
      where owner_key(user_id) = owner_key(${userId}) and user_id = ${userId} and amount_bucket between ${first} and ${last} ${cellConditions(tx, filter)}
    ) parts`;
  return Number(row?.count ?? 0n);
}

/** With every value named, each cell's buckets are one range of a primary key. */
function everyNamed(filter: TransactionFilter): TransactionFilter {
  return {
    ...filter,
    types: orEvery(filter.types, TRANSACTION_TYPES),
    statuses: orEvery(filter.statuses, SETTLED_STATUSES),
    networks: orEvery(filter.networks, NETWORK_IDS),
  };
}

/** Rows of [from, before), which lies inside one bucket: itself or the rest of the bucket, whichever has fewer. */
async function countInBucket(scope: Scope, bucket: Bucket, from: bigint, before: bigint): Promise<number> {
  if (from <= bucket.start && before >= bucket.end) return sumBuckets(scope, bucket.number, bucket.number);
  for (let limit = THIN_SIDE_ROWS; ; limit *= THIN_SIDE_GROWTH) {
    const side = await countRange(scope, from, before, limit);
    if (side.read < limit) return side.matched;
    const [below, above] = await Promise.all([
      countRange(scope, bucket.start, from, limit),
      countRange(scope, before, bucket.end, limit),
    ]);
    if (below.read < limit && above.read < limit)
      return (await sumBuckets(scope, bucket.number, bucket.number)) - below.matched - above.matched;
  }
}

/** Of the first `limit` index entries in [from, before): how many there are, and how many are of the filter's cells. */
async function countRange(
  { tx, userId, filter }: Scope,
  from: bigint,
  before: bigint,
  limit: number,
): Promise<{ read: number; matched: number }> {
  if (from >= before) return { read: 0, matched: 0 };
  const range = amountConditions({ minUnits: from, maxUnits: before - 1n });
  const chosen: SQL = isInCells(filter) ?? sql`true`;
  // in the order of the amount index, an index-only scan
  const query = sql`
    select count(*) as read, count(*) filter (where ${chosen}) as matched
    from (
      select cell
      from transactions
      where ${isOwnedBy(userId)} and ${transactions.isSettled} and ${range}
      order by amount_units
      limit ${limit}
    ) transactions`;
  const [row] = await runBuilt<{ read: bigint; matched: bigint }>(tx, {
    toSQL: () => dialect.sqlToQuery(query),
  });
  return { read: Number(row?.read ?? 0n), matched: Number(row?.matched ?? 0n) };
}
