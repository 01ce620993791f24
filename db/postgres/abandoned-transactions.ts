/**
 * A client that stops (SIGSTOP, a paused machine, a host that vanished) between the messages of one statement keeps its transaction open
 * and its rows locked: to the server its session is active, so neither `idle_in_transaction_session_timeout` nor, while the server waits
 * for a message, `statement_timeout` ends it. `transaction_timeout` would end long exports too, and Postgres 16 has none.
 */
import type { Tx } from "./client.ts";

/** None of our statements makes the server wait this long; after it, an idle transaction would be terminated too. */
export const ABANDONED_AFTER_S = 30;

/**
 * Terminates the backends of this database and role that others wait for and that have themselves waited, within a statement, longer
 * than `afterS` for their client's next message. Returns how many there were.
 */
export async function endAbandonedTransactions(tx: Tx, afterS: number = ABANDONED_AFTER_S): Promise<number> {
  const rows = await tx<{ ended: boolean }[]>`
    with blocking as materialized (
      select distinct unnest(pg_blocking_pids(pid)) as pid
      from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'
    )
    select pg_terminate_backend(pid) as ended
    from pg_stat_activity
    join blocking using (pid)
    where datname = current_database()
      and usename = current_user
      and (state, wait_event) = ('active', 'ClientRead')
      and state_change < clock_timestamp() - make_interval(secs => ${afterS}::float8)`;
  return rows.filter(({ ended }) => ended).length;
}
