/** What /health reads about the other processes, from their rows and locks. */
import type { NetworkId } from "../../core/domain/networks.ts";
import { LIVENESS_CLASS } from "../jobs/dead-workers.ts";
import type { Tx } from "../postgres/client.ts";
import type { cursors } from "../schema.ts";

/** False on a standby, or when a provider has stopped writes because the disk is full. */
export async function takesWrites(tx: Tx): Promise<boolean> {
  const [row] = await tx<{ isReadOnly: boolean }[]>`
    select current_setting('transaction_read_only')::boolean as is_read_only`;
  return row?.isReadOnly === false;
}

export async function listRelayerAddresses(tx: Tx, network: NetworkId): Promise<string[]> {
  const rows = await tx<{ address: string }[]>`
    select address from relayers where network = ${network} order by address`;
  return rows.map((row) => row.address);
}

/** Worker pools that hold their liveness lock now. */
export async function countLiveWorkers(tx: Tx): Promise<number> {
  const [row] = await tx<{ count: number }[]>`
    select count(*)::int as count
    from pg_locks
    where locktype = 'advisory'
      and classid = ${LIVENESS_CLASS}
      and granted
      and database = (select oid from pg_database where datname = current_database())`;
  return row?.count ?? 0;
}

export type IndexerPosition = Pick<typeof cursors.$inferSelect, "number" | "headNumber" | "lastError"> & {
  /** Time between the head's block and the cursor's; null when either is unknown. */
  lagS: number | null;
  /** Time since a leader last reported. */
  silentS: number;
};

export async function findIndexerPosition(tx: Tx, network: NetworkId): Promise<IndexerPosition | undefined> {
  const [row] = await tx<IndexerPosition[]>`
    select
      cursor.number, cursor.head_number, cursor.last_error,
      extract(epoch from cursor.head_time - block.block_time)::int as lag_s,
      extract(epoch from now() - cursor.updated_at)::float8 as silent_s
    from cursors cursor
    left join blocks block on block.network = cursor.network and block.number = cursor.number
    where cursor.network = ${network}`;
  return row;
}
