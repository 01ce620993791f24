/**
 * Reads of lists and exports, on a replica if there is one. A read is never older than what the primary had committed when
 * it began, so all callers see their own writes, made through any process, and everything they were notified of. The primary is
 * used while the replica lags or is unavailable, and as a retry when the replica cancels a query that conflicts with its replay. Of a
 * database that is no copy of the primary nothing is read: not of another service's, of a copy that was promoted, or of a former primary.
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
/** The same after it was found to be another database. */
const FOREIGN_REST_MS = 10_000;
const QUERY_CANCELED = "57014";
const UNDEFINED_TABLE = "42P01";

/** Why the primary was used: there is no replica, or what was wrong with it. */
export type ReadSource = "replica" | "only" | "behind" | "unavailable" | "conflict" | "foreign";

export type Reader = {
  /** Runs `work` in one read-only snapshot. It may run twice, from the start. */
  read<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
};

export type ReaderOptions = {
  replica: Sql | undefined;
  /** How long a read waits for a lagging replica. */
  waitMs: number;
  onRead?: (source: ReadSource) => void;
  /** Called with one sentence when the replica is another database. */
  onForeign?: (message: string) => void;
};

export const FOREIGN_REPLICA =
  "DATABASE_READ_URL leads to a database that is no standby of DATABASE_URL's; nothing is read there";

export function openReader(
  primary: Sql,
  { replica, waitMs, onRead = () => {}, onForeign = () => {} }: ReaderOptions,
): Reader {
  let [restUntilMs, restsFor]: [number, ReadSource] = [0, "unavailable"];
  const rest = (ms: number, source: ReadSource) => {
    [restUntilMs, restsFor] = [performance.now() + ms, source];
  };
  return {
    async read(work) {
      const fallBack = (source: ReadSource) => {
        onRead(source);
        return primary.begin(SNAPSHOT, work) as ReturnType<typeof work>;
      };
      if (!replica) return fallBack("only");
      if (performance.now() < restUntilMs) return fallBack(restsFor);
      const position = await readPosition(primary);
      let connection: postgres.ReservedSql<{ bigint: bigint; numeric: bigint }>;
      try {
        connection = await reserve(replica);
      } catch {
        rest(REST_MS, "unavailable");
        return fallBack("unavailable");
      }
      let isReading = false;
      try {
        const history = await catchUp(connection, position, waitMs);
        if (history === undefined) return fallBack("behind");
        // asked again: the primary may have begun a new epoch since
        if (history !== position.history && history !== (await readPosition(primary)).history) {
          rest(FOREIGN_REST_MS, "foreign");
          onForeign(FOREIGN_REPLICA);
          return fallBack("foreign");
        }
        isReading = true;
        const found = await readSnapshot(connection, work);
        onRead("replica");
        return found;
      } catch (error) {
        if (isReading && !isOfReplica(error)) throw error;
        if (isConflict(error)) return fallBack("conflict");
        rest(REST_MS, "unavailable");
        return fallBack("unavailable");
      } finally {
        connection.release();
      }
    },
  };
}

/** How far a server has got, and which history it has: the newest run that wrote (db/schema/events.sql), and the database's number. */
type Position = { lsn: string; history: string };

/** A standby has both from its primary; another database, or a copy that was written to since, has not. */
const historyOf = (tx: Tx) => tx`
  (select name from event_epochs order by number desc limit 1)
    || ' ' || (select oid from pg_database where datname = current_database())::text`;

async function readPosition(primary: Tx): Promise<Position> {
  const [row] = await primary<Position[]>`
    select pg_current_wal_lsn()::text as lsn, ${historyOf(primary)} as history`;
  return row ?? { lsn: "", history: "" };
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

/**
 * Its history, once it is as far as `lsn`; undefined when it does not get there in time. Asked before the snapshot is taken. A server
 * that is no standby, after a promotion, counts by what it has written.
 */
async function catchUp(tx: Tx, { lsn }: Position, waitMs: number): Promise<string | undefined> {
  const deadlineMs = performance.now() + waitMs;
  for (;;) {
    const asked = tx<{ isThere: boolean | null; history: string | null }[]>`
      select
        case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end
          >= ${lsn}::text::pg_lsn as is_there,
        ${historyOf(tx)} as history`;
    const [row] = await withTimeout(CONNECT_TIMEOUT_MS, asked).catch(emptyIfForeign);
    if (row?.isThere) return row.history ?? "";
    if (performance.now() >= deadlineMs) return undefined;
    await Bun.sleep(POLL_MS);
  }
}

/** A database without our tables. */
function emptyIfForeign(error: unknown) {
  if (error instanceof postgres.PostgresError && error.code === UNDEFINED_TABLE)
    return [{ isThere: true, history: null }];
  throw error;
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
