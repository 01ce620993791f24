/**
 * One leader a network: a session advisory lock on a connection of its own. A killed process loses its connection and with it the
 * lock, at once. A leader that lost the lock without noticing can't write: the next one has raised the epoch (db/cursors.ts).
 */
import type { NetworkId } from "../core/domain/networks.ts";
import type { Log } from "../core/runtime/log.ts";
import type { Sql } from "../db/client.ts";

/** First key of the two-key advisory locks that say who leads. */
const LEADER_CLASS = 7_044;
const TRY_EVERY_MS = 250;
const HEARTBEAT_MS = 1_000;
const HEARTBEAT_TIMEOUT_MS = 5_000;

export type Leadership = {
  /** Aborted when the lock is lost. */
  lost: AbortSignal;
  release: () => Promise<void>;
};

/** Waits until this process leads the network; undefined when `stop` comes first. `sql` needs a free connection a network. */
export async function waitForLeadership(
  sql: Sql,
  network: NetworkId,
  { stop, log }: { stop: AbortSignal; log: Log },
): Promise<Leadership | undefined> {
  while (!stop.aborted) {
    try {
      const leadership = await tryToLead(sql, network, log);
      if (leadership) return leadership;
    } catch (error) {
      log.warn({ network, err: error }, "could not ask who leads");
    }
    await sleep(TRY_EVERY_MS, stop);
  }
  return undefined;
}

async function tryToLead(sql: Sql, network: NetworkId, log: Log): Promise<Leadership | undefined> {
  const connection = await sql.reserve();
  let isKept = false;
  try {
    // a peer that vanished without a word frees its lock after seconds, not hours
    await connection`
      select
        set_config('tcp_keepalives_idle', '2', false), set_config('tcp_keepalives_interval', '1', false),
        set_config('tcp_keepalives_count', '3', false)`;
    const [row] = await connection<{ isTaken: boolean }[]>`
      select pg_try_advisory_lock(${LEADER_CLASS}, hashtext(${network})) as is_taken`;
    isKept = row?.isTaken ?? false;
    return isKept ? keepLeading(connection, network, log) : undefined;
  } finally {
    if (!isKept) connection.release();
  }
}

function keepLeading(
  connection: Awaited<ReturnType<Sql["reserve"]>>,
  network: NetworkId,
  log: Log,
): Leadership {
  const lost = new AbortController();
  const timer = setInterval(async () => {
    const isHeld = await Promise.race([
      isLockHeld(connection, network).catch(() => false),
      Bun.sleep(HEARTBEAT_TIMEOUT_MS).then(() => false),
    ]);
    if (isHeld || lost.signal.aborted) return;
    log.warn({ network }, "the leader's lock is lost");
    lost.abort();
  }, HEARTBEAT_MS);
  const release = async () => {
    clearInterval(timer);
    lost.abort();
    await connection`select pg_advisory_unlock(${LEADER_CLASS}, hashtext(${network}))`.catch(() => undefined);
    connection.release();
  };
  return { lost: lost.signal, release };
}

/** By the very session that took it: after a reconnection it is another one. */
async function isLockHeld(connection: Sql, network: NetworkId): Promise<boolean> {
  const rows = await connection`
    select 1
    from pg_locks
    where locktype = 'advisory'
      and classid = ${LEADER_CLASS}
      and objid = (hashtext(${network})::bigint & 4294967295)::oid
      and pid = pg_backend_pid()
      and granted`;
  return rows.length === 1;
}

/** Ends early when `signal` is aborted. */
export function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener("abort", end, { once: true });
  });
}
