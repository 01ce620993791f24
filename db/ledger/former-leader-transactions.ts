/**
 * Handles transactions of a former leader. The epoch stops those that take the cursor (leader-epoch.ts); a new leader waits for those that store
 * rows before taking it, and terminates those that hold row locks without making progress.
 */
import type { NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";
import { INDEXER_POOL_NAME } from "./indexer-leader-lock.ts";

/** First key of the locks of transactions that store rows before they hold the cursor. */
const BEFORE_CURSOR_CLASS = 7_045;

/**
 * For a transaction that writes before it holds the cursor: locks out the next leader until it ends, and gives it its number. False for
 * an older leader.
 */
export async function lockOutNextLeader(
  tx: Tx,
  { network, epoch }: { network: NetworkId; epoch: bigint },
): Promise<boolean> {
  // two statements, so that the epoch is read after waiting for the lock
  const [, rows] = await Promise.all([
    tx`select pg_advisory_xact_lock_shared(${BEFORE_CURSOR_CLASS}, hashtext(${network})), pg_current_xact_id()`,
    tx`select from cursors where network = ${network} and epoch = ${epoch}`,
  ]);
  return rows.length === 1;
}

/** Waits until no transaction of a former leader writes ahead of the cursor; none begins before this one ends. Taken before the cursor. */
export async function awaitFormerLeaders(tx: Tx, network: NetworkId): Promise<void> {
  await tx`select pg_advisory_xact_lock(${BEFORE_CURSOR_CLASS}, hashtext(${network}))`;
}

export async function findBackendPid(tx: Tx): Promise<number> {
  const [row] = await tx<{ pid: number }[]>`select pg_backend_pid() as pid`;
  if (!row) throw new Error("the server did not name its backend");
  return row.pid;
}

/**
 * Terminates the indexers' backends that this one waits for, and returns how many there were. Only for a backend whose leader holds the
 * lock: what it waits for is of a former leader, whose writes are fenced. The server's own limit for idle transactions does not end a
 * client that stopped between the messages of one statement (its session counts as active), nor one whose host vanished.
 */
export async function endFormerLeadersTransactions(tx: Tx, waitingPid: number): Promise<number> {
  const rows = await tx<{ ended: boolean }[]>`
    select pg_terminate_backend(pid) as ended
    from pg_stat_activity
    where pid = any(pg_blocking_pids(${waitingPid}::int))
      and application_name = ${INDEXER_POOL_NAME}`;
  return rows.filter(({ ended }) => ended).length;
}
