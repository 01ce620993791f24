/**
 * Reads of lists and exports, on a replica if there is one. A read is never older than what the primary had committed when
 * it began, so all callers see their own writes, made through any process, and everything they were notified of. The primary is
 * used while the replica lags or is unavailable, and as a retry when the replica cancels a query that conflicts with its replay.
 */
import postgres from "postgres";
import { ServiceError } from "../../core/domain/errors.ts";
import { isWorthRetrying, type Sql, type Tx } from "./client.ts";
import { withTimeout } from "./retry-while-unavailable.ts";

const SNAPSHOT = "isolation level repeatable read read only";
/** Poll interval of a lagging replica. */
const POLL_MS = 5;
/** Timeout of a connection to the replica, and of its first response. */
const CONNECT_TIMEOUT_MS = 1_000;
/** How long the replica is not used after a failure. */
const REST_MS = 1_000;
const QUERY_CANCELED = "57014";

/** Why the primary was used: there is no replica, or what was wrong with it. */
export type ReadSource = "replica" | "only" | "behind" | "unavailable" | "conflict";

export type Reader = {
  /** Runs `work` in one read-only snapshot. It may run twice, from the start. */
  read<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
};

export type ReaderOptions = {
  replica: Sql | undefined;
  /** How long a read waits for a lagging replica. */
  waitMs: number;
  onRead?: (source: ReadSource) => void;
};

export function openReader(primary: Sql, { replica, waitMs, onRead = () => {} }: ReaderOptions): Reader {
  let restUntilMs = 0;
  return {
    async read(work) {
      const fallBack = (source: ReadSource) => {
        onRead(source);
        return primary.begin(SNAPSHOT, work) as ReturnType<typeof work>;
      };
      if (!replica) return fallBack("only");
      if (performance.now() < restUntilMs) return fallBack("unavailable");
      const position = await readPosition(primary);
      let connection: postgres.ReservedSql<{ bigint: bigint; numeric: bigint }>;
      try {
        connection = await reserve(replica);
      } catch {
        restUntilMs = performance.now() + REST_MS;
        return fallBack("unavailable");
      }
      let isReading = false;
      try {
        if (!(await catchesUp(connection, position, waitMs))) return fallBack("behind");
        isReading = true;
        const found = await readSnapshot(connection, work);
        onRead("replica");
        return found;
      } catch (error) {
        if (isReading && !isOfReplica(error)) throw error;
        restUntilMs = isConflict(error) ? 0 : performance.now() + REST_MS;
        return fallBack(isConflict(error) ? "conflict" : "unavailable");
      } finally {
        connection.release();
      }
    },
  };
}

async function readPosition(primary: Tx): Promise<string> {
  const [row] = await primary<{ position: string }[]>`select pg_current_wal_lsn()::text as position`;
  return row?.position ?? "";
}

/** A connection of its own: behind one address there may be several replicas. */
async function reserve(replica: Sql) {
  const reserving = replica.reserve();
  try {
    return await withTimeout(CONNECT_TIMEOUT_MS, reserving);
  } catch (error) {
    reserving.then(
      (late) => late.release(),
      () => undefined,
    );
    throw error;
  }
}

/** Asked before the snapshot is taken. A server that is no standby, after a promotion, counts by what it has written. */
async function catchesUp(tx: Tx, position: string, waitMs: number): Promise<boolean> {
  const deadlineMs = performance.now() + waitMs;
  for (;;) {
    const asked = tx<{ isThere: boolean | null }[]>`
      select
        case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end
          >= ${position}::text::pg_lsn as is_there`;
    const [row] = await withTimeout(CONNECT_TIMEOUT_MS, asked);
    if (row?.isThere) return true;
    if (performance.now() >= deadlineMs) return false;
    await Bun.sleep(POLL_MS);
  }
}

async function readSnapshot<T>(connection: Tx, work: (tx: Tx) => Promise<T>): Promise<T> {
  await connection.unsafe(`begin ${SNAPSHOT}`);
  try {
    const found = await work(connection);
    await connection`commit`;
    return found;
  } catch (error) {
    await connection`rollback`.catch(() => undefined);
    throw error;
  }
}

/** Whether the primary may succeed where the replica failed: not for refusals or queries that were too expensive. */
function isOfReplica(error: unknown): boolean {
  if (error instanceof ServiceError) return false;
  return (
    isWorthRetrying(error) && !(error instanceof postgres.PostgresError && error.code === QUERY_CANCELED)
  );
}

/** "canceling statement due to conflict with recovery", or the connection ended for it. */
function isConflict(error: unknown): boolean {
  return error instanceof postgres.PostgresError && /conflict with recovery/.test(error.message);
}
