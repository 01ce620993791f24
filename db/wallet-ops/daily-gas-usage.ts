/**
 * How much gas a user's sends and refunds have used today (UTC), and how many failed at the relayers' cost within
 * the hour. The limits: api/wallet-ops/send-gas-budget.ts.
 */
import { NETWORK_IDS } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";

export type DailyGasUsage = {
  /** Gas that the user's operations have used since the UTC day began, including reverted ones; pending ones count with their gas limit. */
  gas: bigint;
  /** Operations of the last hour that failed after a relayer had paid for them. */
  failures: number;
  /** The time until the oldest of these failures is an hour old. */
  secondsOfPauseLeft: number;
};

export async function readDailyGasUsage(tx: Tx, userId: string): Promise<DailyGasUsage> {
  const [row] = await tx<DailyGasUsage[]>`
    select
      (
        select coalesce(sum(used + reserved), 0)::bigint
        from relay_budgets
        where network = any(${[...NETWORK_IDS]}::text[])
          and scope = 'SENDER'
          and subject = ${userId}
          and day = (now() at time zone 'utc')::date
      ) as gas,
      count(*)::int as failures,
      coalesce(ceil(extract(epoch from min(op.queued_at) + interval '1 hour' - now())), 0)::int
        as seconds_of_pause_left
    from wallet_operations op
    where op.user_id = ${userId} and ${isCostlyFailure(tx)}`;
  if (!row) throw new Error("an aggregate returned no row");
  return row;
}

/** Users with at least this many failures within the last hour. */
export async function countPausedSenders(tx: Tx, failures: number): Promise<number> {
  const [row] = await tx<{ count: number }[]>`
    select count(*)::int as count
    from (
      select
      from wallet_operations op
      where ${isCostlyFailure(tx)}
      group by op.user_id
      having count(*) >= ${failures}::int
    ) paused`;
  return row?.count ?? 0;
}

/** Needs `op`. Relayed within the last hour and failed, except when our relay did not execute it. */
function isCostlyFailure(tx: Tx) {
  return tx`(
    op.state = 'FAILED'
    and op.queued_at > now() - interval '1 hour'
    and op.relayed_at is not null
    and op.reason <> 'NOT_RUN'
  )`;
}
