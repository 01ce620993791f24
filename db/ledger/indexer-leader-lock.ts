/**
 * One leader per network: a session advisory lock on a dedicated connection that never reconnects. A killed process loses its
 * connection, and with it the lock, immediately. A frozen one (stopped, swapped out, paused machine) keeps both: it is detected by
 * its missing heartbeat (FROZEN_AFTER_S), and its connection is terminated. When it wakes up, the epoch fences
 * its writes (leader-epoch.ts).
 */
import postgres from "postgres";
import type { NetworkId } from "../../core/domain/networks.ts";
import { readAddress } from "../postgres/address.ts";
import { reconnectPauseS, silenceTimeout } from "../postgres/client.ts";
import { SESSION_SETTINGS } from "../postgres/session-settings.ts";

/** application_name of an indexer's pool. */
export const INDEXER_POOL_NAME = "indexer";
/** First key of the two-key advisory locks that elect a leader. */
export const LEADER_CLASS = 7_044;
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
  const { url, ...tls } = readAddress(databaseUrl);
  const sql = postgres(url, {
    ...tls,
    max: 1,
    max_lifetime: null,
    connect_timeout: CONNECT_TIMEOUT_S,
    backoff: reconnectPauseS,
    ...silenceTimeout(SILENCE_TIMEOUT_S),
    fetch_types: false,
    onnotice: () => {},
    onclose: onBroken,
    // a heartbeat that a crash takes back was of a leader that is gone
    connection: { ...SESSION_SETTINGS, application_name: name, synchronous_commit: "off", ...KEEPALIVE },
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
