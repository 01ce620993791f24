/**
 * One leader a network: a session advisory lock on a connection that is used for nothing else and never renewed. A killed process
 * loses its connection and with it the lock, at once.
 */
import postgres from "postgres";
import type { NetworkId } from "../../core/domain/networks.ts";
import { reconnectPauseS, silenceTimeout } from "../postgres/client.ts";

/** First key of the two-key advisory locks that say who leads. */
const LEADER_CLASS = 7_044;
const CONNECT_TIMEOUT_S = 5;
/** Its statements take no time: who waits to lead must not ask a server that is gone for minutes. */
const SILENCE_TIMEOUT_S = 5;
/** A peer that vanished without a word frees its lock after seconds, not hours (tcp(7)). */
const KEEPALIVE = { tcp_keepalives_idle: 2, tcp_keepalives_interval: 1, tcp_keepalives_count: 3 };

export type LeaderSeat = {
  /** Takes the lock when it is free. */
  tryToTake: () => Promise<boolean>;
  /** Whether this very session holds it: after a reconnection it is another one. */
  isHeld: () => Promise<boolean>;
  release: () => Promise<void>;
  close: () => Promise<void>;
};

/** `onBroken` is called whenever the connection is gone, and the lock with it if it was held. */
export function openLeaderSeat(
  databaseUrl: string,
  network: NetworkId,
  { name, onBroken }: { name: string; onBroken: () => void },
): LeaderSeat {
  const sql = postgres(databaseUrl, {
    max: 1,
    max_lifetime: null,
    connect_timeout: CONNECT_TIMEOUT_S,
    backoff: reconnectPauseS,
    ...silenceTimeout(SILENCE_TIMEOUT_S),
    onnotice: () => {},
    onclose: onBroken,
    connection: { application_name: name, ...KEEPALIVE },
  });
  return {
    async tryToTake() {
      const [row] = await sql<{ taken: boolean }[]>`
        select pg_try_advisory_lock(${LEADER_CLASS}, hashtext(${network})) as taken`;
      return row?.taken ?? false;
    },
    async isHeld() {
      const rows = await sql`
        select 1
        from pg_locks
        where locktype = 'advisory'
          and classid = ${LEADER_CLASS}
          and objid = (hashtext(${network})::bigint & 4294967295)::oid
          and pid = pg_backend_pid()
          and granted`;
      return rows.length === 1;
    },
    async release() {
      await sql`select pg_advisory_unlock_all()`;
    },
    close: () => sql.end({ timeout: 1 }),
  };
}
