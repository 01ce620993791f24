/**
 * The one way to Postgres: typed parsers (int8 and numeric(78,0) as bigint, timestamptz as Date) and camelCase columns.
 *
 * postgres.js 3.4.9 is patched (patches/, porsager/postgres#1208, #1155, #1186, #1192). As published, a connection that breaks inside
 * a transaction ends the process, since its ROLLBACK is written to no socket; or later statements of that transaction run outside of
 * it, on the connection that the pool has opened for somebody else. And bytes left over from the broken socket keep the next one from
 * saying hello, so that this connection times out again and again. And of statements sent side by side in a transaction, those that a
 * branch sends after another one failed run when the transaction is over: by themselves, and committed. Now they are refused with
 * TRANSACTION_ENDED. And who waits to reserve a connection is forgotten, for ever, when another one is lost meanwhile. And a server
 * that vanished without a word (a failover, a network that drops) is noticed after `silence_timeout` seconds: the kernel would go on
 * sending to it for a quarter of an hour. The tests lost-connections, ended-transactions, reservations and silent-server in tests/db
 * notice when the patch is gone.
 */
import postgres from "postgres";

type Types = { bigint: bigint; numeric: bigint };

/** A pool of connections. Transactions are opened by the processes' verbs with `sql.begin`. */
export type Sql = postgres.Sql<Types>;
/** What a db function takes: the pool or an open transaction. */
export type Tx = postgres.ISql<Types>;

/** A statement that runs longer is cancelled by the server. */
const STATEMENT_TIMEOUT_MS = 30_000;
/** A server that owes an answer for this long is gone: no statement takes longer. */
const SILENCE_TIMEOUT_S = 40;
const CONNECT_TIMEOUT_S = 5;
const IDLE_IN_TRANSACTION_TIMEOUT_MS = 30_000;
/**
 * Every statement of ours has an index, and most are planned once for a connection's life. A plan made while a table was small would read
 * it whole ever after, until statistics catch up: a fresh database, or one that grows by a campaign, would slow down by the minute.
 */
const PLANNER = { enable_seqscan: "off", random_page_cost: 1.1, jit: "off" };

export type DatabaseOptions = {
  /** Shows in pg_stat_activity. */
  name: string;
  maxConnections?: number;
  /** Commits don't wait for the disk: a crash of the server may take back the last of them, never one that a later durable commit saw. */
  asynchronousCommit?: boolean;
  /** Each statement is planned once, whatever its parameters: for those who run few statements all the time. */
  genericPlans?: boolean;
  /** A server that owes an answer for so long is taken for gone. 0 for statements that take as long as they take. Default 40. */
  silenceTimeoutS?: number;
  /** A transaction whose client sends nothing for so long is rolled back by the server. Default 30 s. */
  idleInTransactionTimeoutMs?: number;
};

const RECONNECT_MIN_S = 0.05;
const RECONNECT_MAX_S = 1;

/**
 * Pause before a connection is tried again, after so many failures of its pool. The driver's own rises to 20 s within a few of them:
 * after a crash of the server, statements would wait that long for one that is back within a second.
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
  return postgres(url, {
    max: options.maxConnections ?? 10,
    connect_timeout: CONNECT_TIMEOUT_S,
    backoff: reconnectPauseS,
    ...silenceTimeout(options.silenceTimeoutS ?? SILENCE_TIMEOUT_S),
    onnotice: () => {},
    transform: { column: { from: postgres.toCamel } },
    types: {
      bigint: postgres.BigInt,
      numeric: {
        to: 1700,
        from: [1700],
        serialize: (value: bigint) => value.toString(),
        parse: (text: string) => BigInt(text),
      },
    },
    connection: {
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

/** SQLSTATE classes after which the same statement fails again: data, integrity, missing or wrong objects. */
const HOPELESS_CLASSES = ["22", "23", "42"];

/** A lost connection, a deadlock, a server that stops or is full: the database may answer the same work otherwise soon. */
export function isWorthRetrying(error: unknown): boolean {
  if (error instanceof postgres.PostgresError) return !HOPELESS_CLASSES.includes(error.code.slice(0, 2));
  return error instanceof Error && "code" in error && typeof error.code === "string";
}

/** Runs a query put together by drizzle's builder on this connection or transaction. */
export function runBuilt<Row>(
  tx: Tx,
  query: { toSQL(): { sql: string; params: unknown[] } },
): Promise<Row[]> {
  const built = query.toSQL();
  // the driver takes the values drizzle's encoders made: text, numbers, bigints and arrays
  return tx.unsafe(built.sql, built.params as postgres.ParameterOrJSON<never>[]) as unknown as Promise<Row[]>;
}
