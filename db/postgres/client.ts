/**
 * Access to Postgres: typed parsers (int8 and numeric(78,0) as bigint, timestamptz as Date, bytes of the chain as `0x…`) and camelCase
 * columns.
 *
 * postgres.js 3.4.9 is patched (patches/, porsager/postgres#1208, #1155, #1186, #1192). Unpatched:
 * - A connection that breaks inside a transaction ends the process, because ROLLBACK is written to no socket; or later statements of
 *   that transaction run outside of it, on a connection that the pool opened for another caller.
 * - Bytes left over from the broken socket prevent the handshake of the next one, so that the connection times out repeatedly.
 * - Of statements sent concurrently in a transaction, those sent after another one failed run and commit outside of it. Patched: they
 *   are rejected with TRANSACTION_ENDED.
 * - A caller waiting to reserve a connection waits forever when another connection is lost.
 * - A server that vanished silently (failover, dropped packets) is noticed after a quarter of an hour, by the kernel. Patched: after
 *   `silence_timeout` seconds.
 * - Each new connection asks the server for all its types, to know arrays. Patched: `array_types` names them.
 * - Statements one after another go to each idle connection in turn, and find nothing of theirs in any processor's cache. Patched: the
 *   connection used last is used next.
 * The tests lost-connections, ended-transactions, reservations, silent-server and newest-connection in tests/postgres fail without the
 * patch.
 */
import postgres from "postgres";
import { readAddress } from "./address.ts";
import { KNOWN_ARRAY_TYPES } from "./array-types.ts";
import { BYTEA_TYPE, presentColumn } from "./hex-bytes.ts";
import { SESSION_SETTINGS } from "./session-settings.ts";

type Types = { bigint: bigint; numeric: bigint };

/** A pool of connections. Transactions are opened by the processes' verbs with `sql.begin`. */
export type Sql = postgres.Sql<Types>;
/** What db functions take: the pool or an open transaction. */
export type Tx = postgres.ISql<Types>;

/** A statement that runs longer is cancelled by the server. */
const STATEMENT_TIMEOUT_MS = 30_000;
/** A server that has not answered for this long is considered dead: no statement takes longer. */
const SILENCE_TIMEOUT_S = 40;
const CONNECT_TIMEOUT_S = 5;
const IDLE_IN_TRANSACTION_TIMEOUT_MS = 30_000;
/**
 * Every statement of ours has an index, and most are planned once per connection. A plan made while a table was small would scan it
 * sequentially until statistics catch up: a new or fast-growing database would slow down by the minute.
 */
const PLANNER = { enable_seqscan: "off", random_page_cost: 1.1, jit: "off" };

export type DatabaseOptions = {
  /** Shows in pg_stat_activity. */
  name: string;
  maxConnections?: number;
  /** Asynchronous commit: a server crash may lose the last commits, but never one that a later durable commit saw. */
  asynchronousCommit?: boolean;
  /** Plans each statement once, whatever its parameters: for processes with few, frequent statements. */
  genericPlans?: boolean;
  /** Seconds without an answer before the server is considered dead. 0 for statements without a time limit. Default 40. */
  silenceTimeoutS?: number;
  /** A transaction whose client sends nothing for so long is rolled back by the server. Default 30 s. */
  idleInTransactionTimeoutMs?: number;
};

const RECONNECT_MIN_S = 0.05;
const RECONNECT_MAX_S = 1;

/**
 * Delay before reconnecting, by the number of failures of the pool. The driver's own rises to 20 s within a few failures: after a
 * crash, statements would wait that long for a server that is back within a second.
 */
export function reconnectPauseS(failures: number): number {
  return Math.min(RECONNECT_MIN_S * 2 ** failures, RECONNECT_MAX_S) * (0.5 + Math.random() / 2);
}

/** An option of the patched driver. */
export function silenceTimeout(seconds: number): object {
  return { silence_timeout: seconds };
}

/** Opens a pool. */
export function openDatabase(url: string, options: DatabaseOptions): Sql {
  const { url: address, ...tls } = readAddress(url);
  return postgres(address, {
    ...tls,
    max: options.maxConnections ?? 10,
    connect_timeout: CONNECT_TIMEOUT_S,
    backoff: reconnectPauseS,
    ...silenceTimeout(options.silenceTimeoutS ?? SILENCE_TIMEOUT_S),
    ...KNOWN_ARRAY_TYPES,
    onnotice: () => {},
    transform: { column: { from: postgres.toCamel }, value: { from: presentColumn } },
    types: {
      bytea: BYTEA_TYPE,
      bigint: postgres.BigInt,
      numeric: {
        to: 1700,
        from: [1700],
        serialize: (value: bigint) => value.toString(),
        parse: (text: string) => BigInt(text),
      },
    },
    connection: {
      ...SESSION_SETTINGS,
      application_name: options.name,
      statement_timeout: STATEMENT_TIMEOUT_MS,
      idle_in_transaction_session_timeout:
        options.idleInTransactionTimeoutMs ?? IDLE_IN_TRANSACTION_TIMEOUT_MS,
      ...PLANNER,
      ...(options.genericPlans ? { plan_cache_mode: "force_generic_plan" } : {}),
      ...(options.asynchronousCommit ? { synchronous_commit: "off" } : {}),
    },
  });
}

/** SQLSTATE classes of permanent errors: data, integrity, missing or wrong objects. */
const HOPELESS_CLASSES = ["22", "23", "42"];

/** A lost connection, a deadlock, a stopping or overloaded server: a retry may succeed. */
export function isWorthRetrying(error: unknown): boolean {
  if (error instanceof postgres.PostgresError) return !HOPELESS_CLASSES.includes(error.code.slice(0, 2));
  return error instanceof Error && "code" in error && typeof error.code === "string";
}

/**
 * Runs a query built by drizzle on this connection or transaction. `prepare`: planned once a connection, for a text that is always the same and
 * a plan that suits all values.
 */
export function runBuilt<Row>(
  tx: Tx,
  query: { toSQL(): { sql: string; params: unknown[] } },
  { prepare = false }: { prepare?: boolean } = {},
): Promise<Row[]> {
  const built = query.toSQL();
  // the driver accepts the values that drizzle's encoders produce: text, numbers, bigints and arrays
  return tx.unsafe(built.sql, built.params as postgres.ParameterOrJSON<never>[], {
    prepare,
  }) as unknown as Promise<Row[]>;
}
