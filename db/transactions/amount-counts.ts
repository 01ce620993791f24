/** Counts rows between two amounts: whole buckets from counters (db/schema/transactions.sql), the two partial ones by index from their smaller side. */
import type { TransactionFilter } from "../../core/domain/transaction.ts";
import type { Tx } from "../postgres/client.ts";
import { cellConditions } from "./counts.ts";

/** Rows counted individually before a bucket's other side is tried. */
const THIN_SIDE_ROWS = 5_000;

/** Rows of a filter without search and dates. Exact at the snapshot of `tx`. */
export async function countByAmount(tx: Tx, userId: string, filter: TransactionFilter): Promise<number> {
  const scope = { tx, userId, filter };
  const from = filter.minUnits ?? 0n;
  const low = bucketOf(from);
  if (filter.maxUnits === undefined) {
    return (await sumBuckets(scope, low.number + 1)) + (await countInBucket(scope, low, from, low.end));
  }
  const before = filter.maxUnits + 1n;
  if (before <= from) return 0;
  const high = bucketOf(filter.maxUnits);
  if (high.number === low.number) return countInBucket(scope, low, from, before);
  return (
    (await countInBucket(scope, low, from, low.end)) +
    (await sumBuckets(scope, low.number + 1, high.number - 1)) +
    (await countInBucket(scope, high, high.start, before))
  );
}

type Scope = { tx: Tx; userId: string; filter: TransactionFilter };
type Bucket = { number: number; start: bigint; end: bigint };

/** transaction_amount_bucket of db/schema/transactions.sql, with its bounds: [start, end). */
export function bucketOf(units: bigint): Bucket {
  const text = units.toString();
  const width = text.length > 3 ? 10n ** BigInt(text.length - 3) : 1n;
  const start = (units / width) * width;
  return { number: text.length * 1000 + Number(text.slice(0, 3).padEnd(3, "0")), start, end: start + width };
}

/** Rows of the buckets first to last, both included. */
async function sumBuckets({ tx, userId, filter }: Scope, first: number, last?: number): Promise<number> {
  const isEveryCell = filter.types.length + filter.statuses.length + filter.networks.length === 0;
  const cells = isEveryCell
    ? tx`and network = '*' and type = '*' and status = '*'`
    : cellConditions(tx, filter);
  const upTo = last ?? 1_000_000_000;
  const [row] = await tx<{ count: bigint }[]>`
    select coalesce(sum(count), 0) as count
    from (
      select count
      from transaction_amount_counts
      where user_id = ${userId} and bucket between ${first} and ${upTo} ${cells}
      union all
      select count
      from transactions_to_count
      where user_id = ${userId} and owner = owner_key(${userId}) and amount_bucket between ${first} and ${upTo} ${cellConditions(tx, filter)}
    ) parts`;
  return Number(row?.count ?? 0n);
}

/** Rows of [from, before), which lies inside one bucket. */
async function countInBucket(scope: Scope, bucket: Bucket, from: bigint, before: bigint): Promise<number> {
  const isWhole = from <= bucket.start && before >= bucket.end;
  if (!isWhole) {
    const few = await countRange(scope, from, before, THIN_SIDE_ROWS);
    if (few < THIN_SIDE_ROWS) return few;
  }
  const whole = await sumBuckets(scope, bucket.number, bucket.number);
  if (isWhole) return whole;
  return (
    whole - (await countRange(scope, bucket.start, from)) - (await countRange(scope, before, bucket.end))
  );
}

async function countRange({ tx, userId, filter }: Scope, from: bigint, before: bigint, limit?: number) {
  if (from >= before) return 0;
  const condition = tx`
    owner = owner_key(${userId}) and amount_units >= ${from.toString()}::numeric and amount_units < ${before.toString()}::numeric
    ${cellConditions(tx, filter)}`;
  const [row] = await tx<{ count: bigint }[]>`
    select count(*) as count
    from (
      (select from transactions where ${condition} and is_settled limit ${limit ?? null})
      union all
      (select from transactions where ${condition} and not is_settled limit ${limit ?? null})
      limit ${limit ?? null}
    ) rows`;
  return Number(row?.count ?? 0n);
}
