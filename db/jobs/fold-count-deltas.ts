/** Adds the deltas that transactions have stored to the counters of the history and of links, in bounded steps. */
import type { Tx } from "../postgres/client.ts";

/** One process folds at a time; others find the lock held and do nothing. */
const FOLD_LOCK = 7_041_030;

/** Folds at most `limit` deltas of the history into its counters. Returns the number; also 0 when another process is folding. */
export async function foldTransactionCounts(tx: Tx, limit: number): Promise<number> {
  if (!(await lockFolding(tx))) return 0;
  const [row] = await tx<{ folded: bigint }[]>`
    with taken as (
      delete from transaction_count_deltas
      where ctid = any(array(select ctid from transaction_count_deltas limit ${limit}))
      returning user_id, day, network, type, status, amount_bucket, count, units
    ),
    by_day as (
      insert into transaction_counts (user_id, day, network, type, status, count, units)
      select
        user_id, coalesce(day, 'infinity'), coalesce(network, '*'), coalesce(type, '*'), coalesce(status, '*'), sum(count),
        sum(units)
      from taken
      group by grouping sets (
        (user_id, day, network, type, status), (user_id, network, type, status), (user_id, day), (user_id)
      )
      having sum(count) <> 0 or sum(units) <> 0
      on conflict (user_id, network, type, status, day) do update
      set count = transaction_counts.count + excluded.count, units = transaction_counts.units + excluded.units
    ),
    by_amount as (
      insert into transaction_amount_counts (user_id, network, type, status, bucket, count)
      select user_id, coalesce(network, '*'), coalesce(type, '*'), coalesce(status, '*'), amount_bucket, sum(count)
      from taken
      group by grouping sets ((user_id, amount_bucket, network, type, status), (user_id, amount_bucket))
      having sum(count) <> 0
      on conflict (user_id, network, type, status, bucket) do update
      set count = transaction_amount_counts.count + excluded.count
    )
    select count(*) as folded
    from taken`;
  return Number(row?.folded ?? 0n);
}

/** The same for the counters of links. */
export async function foldLinkCounts(tx: Tx, limit: number): Promise<number> {
  if (!(await lockFolding(tx))) return 0;
  const [row] = await tx<{ folded: bigint }[]>`
    with taken as (
      delete from link_count_deltas
      where ctid = any(array(select ctid from link_count_deltas limit ${limit}))
      returning user_id, status, count, amount_units, refunded_units, prior_status, prior_amount_units, prior_refunded_units
    ),
    by_status as (
      insert into link_counts (user_id, status, count, amount_units, refunded_units)
      select user_id, status, sum(count), sum(amount_units), sum(refunded_units)
      from (
        select user_id, status, count, amount_units, refunded_units from taken
        union all
        select user_id, prior_status, -count, -prior_amount_units, -prior_refunded_units from taken
      ) changes
      where status is not null
      group by user_id, status
      on conflict (user_id, status) do update
      set
        count = link_counts.count + excluded.count,
        amount_units = link_counts.amount_units + excluded.amount_units,
        refunded_units = link_counts.refunded_units + excluded.refunded_units
    )
    select count(*) as folded
    from taken`;
  return Number(row?.folded ?? 0n);
}

async function lockFolding(tx: Tx): Promise<boolean> {
  const [row] = await tx<{ locked: boolean }[]>`select pg_try_advisory_xact_lock(${FOLD_LOCK}) as locked`;
  return row?.locked === true;
}
