/**
 * Reattempt a transaction that Postgres has aborted to resolve a deadlock: it was rolled back, and the other side has its locks by then. A
 * client over HTTP would get a 500 for what succeeds on the next attempt; jobs and loops are retried as a whole anyway.
 */
import postgres from "postgres";
import type { Sql } from "./client.ts";

/** deadlock_detected, Appendix A of Postgres' documentation. */
const DEADLOCK_DETECTED = "40P01";
/** Each attempt may wait for Postgres' deadlock_timeout, one second by default. */
const ATTEMPTS_MAX = 3;

/** The same pool. Functions given to its `begin` must have no effect outside the transaction: they may run up to three times. */
export function retryDeadlocks(sql: Sql): Sql {
  const begin = sql.begin as (...args: unknown[]) => Promise<unknown>;
  const beginWithRetry = async (...args: unknown[]) => {
    for (let attempt = 1; ; attempt++) {
      try {
        return await begin(...args);
      } catch (error) {
        const isDeadlocked = error instanceof postgres.PostgresError && error.code === DEADLOCK_DETECTED;
        if (!isDeadlocked || attempt === ATTEMPTS_MAX) throw error;
      }
    }
  };
  return Object.assign(sql, { begin: beginWithRetry as Sql["begin"] });
}
