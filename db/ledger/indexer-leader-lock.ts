/**
 * One leader per network: a session advisory lock on a dedicated connection that never reconnects. A killed process loses its
 * connection, and with it the lock, immediately. A frozen one (stopped, swapped out, paused machine) keeps both: it is detected by
 * its missing heartbeat (FROZEN_AFTER_S), and its connection is terminated. When it wakes up, the epoch fences
 * its writes (cursors.ts).
 */
import postgres from "postgres";
import type { NetworkId } from "../../core/domain/networks.ts";
import { reconnectPauseS, silenceTimeout, type Tx } from "../postgres/client.ts";

/** application_name of an indexer's pool. */
export const INDEXER_POOL_NAME = "indexer";
/** First key of the two-key advisory locks that elect a leader. */
export const LEADER_CLASS = 7_044;
/** First key of the locks of transactions that store rows before they hold the cursor. */
const AHEAD_CLASS = 7_045;
const CONNECT_TIMEOUT_S = 5;
/** Its statements are fast: a longer wait means that the server has been unreachable. */
const SILENCE_TIMEOUT_S = 5;
/** TCP keep-alive frees the lock of a vanished peer after seconds, not hours (tcp(7)). */
const KEEPALIVE = { tcp_keepalives_idle: 2, tcp_keepalives_interval: 1, tcp_keepalives_count: 3 };

/** Without a heartbeat for this long a leader is replaced. It has one every second, however slow its node or long its range. */
const FROZEN_AFTER_S = 12;

export type IndexerLeaderLock = {
  /** Takes the lock when it is free. */
  tryToTake: () => Promise<boolean>;
  /** Records a heartbeat if this very session holds the lock, and says whether it does: after a reconnection it is another session. */
  keepAlive: () => Promise<boolean>;
  /** Ends the connection that holds the lock when its leader is frozen. True when one was ended. */
  endFrozenLeader: () => Promise<boolean>;
  release: () => Promise<void>;
  close: () => Promise<void>;
};

/** Calls `onBroken` when the connection is lost, and with it the lock if it was held. */
export function openIndexerLeaderLock(
  databaseUrl: string,
  network: NetworkId,
  { name, onBroken }: { name: string; onBroken: () => void },
): IndexerLeaderLock {
  const sql = postgres(databaseUrl, {
    max: 1,
    max_lifetime: null,
    connect_timeout: CONNECT_TIMEOUT_S,
    backoff: reconnectPauseS,
    ...silenceTimeout(SILENCE_TIMEOUT_S),
    fetch_types: false,
    onnotice: () => {},
    onclose: onBroken,
    // a heartbeat that a crash takes back was of a leader that is gone
    connection: { application_name: name, synchronous_commit: "off", ...KEEPALIVE },
  });
  return {
    async tryToTake() {
      const [row] = await sql<{ taken: boolean }[]>`
        with lock as materialized (
          select pg_try_advisory_lock(${LEADER_CLASS}, hashtext(${network})) as taken
        ),
        heartbeat as (
          insert into indexer_leaders (network, backend_pid, alive_at)
          select ${network}, pg_backend_pid(), clock_timestamp()
          from lock
          where taken
          on conflict (network) do update
          set backend_pid = excluded.backend_pid, alive_at = excluded.alive_at
        )
        select taken
        from lock`;
      return row?.taken ?? false;
    },
    async keepAlive() {
      const rows = await sql`
        update indexer_leaders
        set backend_pid = pg_backend_pid(), alive_at = clock_timestamp()
        where network = ${network}
          and exists (
            select
            from pg_locks
            where ${isLeaderLock(sql, network)} and pid = pg_backend_pid()
          )
        returning 1`;
      return rows.length === 1;
    },
    async endFrozenLeader() {
      // the heartbeat must be the holder's own: who has just taken the lock from a frozen leader may not have written one yet
      const rows = await sql<{ ended: boolean }[]>`
        select pg_terminate_backend(pg_locks.pid) as ended
        from indexer_leaders leader
        join pg_locks on pg_locks.pid = leader.backend_pid
        where leader.network = ${network}
          and leader.alive_at < clock_timestamp() - make_interval(secs => ${FROZEN_AFTER_S})
          and ${isLeaderLock(sql, network)}`;
      return rows.some(({ ended }) => ended);
    },
    async release() {
      await sql`select pg_advisory_unlock_all()`;
    },
    close: () => sql.end({ timeout: 1 }),
  };
}

function isLeaderLock(sql: postgres.Sql, network: NetworkId) {
  return sql`
    locktype = 'advisory'
    and database = (select oid from pg_database where datname = current_database())
    and classid = ${LEADER_CLASS}
    and objid = (hashtext(${network})::bigint & 4294967295)::oid
    and granted`;
}

/**
 * For a transaction that writes before it holds the cursor: locks out the next leader until it ends, and gives it its number. False for
 * an older leader.
 */
export async function lockOutNextLeader(
  tx: Tx,
  { network, epoch }: { network: NetworkId; epoch: bigint },
): Promise<boolean> {
  // two statements: the epoch is read when the lock has been waited for
  const [, rows] = await Promise.all([
    tx`select pg_advisory_xact_lock_shared(${AHEAD_CLASS}, hashtext(${network})), pg_current_xact_id()`,
    tx`select from cursors where network = ${network} and epoch = ${epoch}`,
  ]);
  return rows.length === 1;
}

/** Waits until no transaction of a former leader writes ahead of the cursor; none begins before this one ends. Taken before the cursor. */
export async function awaitFormerLeaders(tx: Tx, network: NetworkId): Promise<void> {
  await tx`select pg_advisory_xact_lock(${AHEAD_CLASS}, hashtext(${network}))`;
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
