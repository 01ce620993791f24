/** What the primary reports about its standbys. */
import type { Tx } from "./client.ts";

/**
 * True when a standby streams from this server and none is synchronous: a failover may then forget payments that were answered as settled.
 * Without the rights of pg_monitor the kind of a receiver is hidden, and each counts as a standby.
 */
export async function hasOnlyAsynchronousStandbys(tx: Tx): Promise<boolean> {
  const [row] = await tx<{ found: boolean }[]>`
    select
      exists (
        select
        from pg_stat_replication
        where state is null or state in ('catchup', 'streaming')
      )
      and (
        current_setting('synchronous_standby_names') = ''
        or current_setting('synchronous_commit') in ('off', 'local')
      ) as found`;
  return row?.found ?? false;
}
