/**
 * Runs a transaction again that Postgres has ended to resolve a deadlock. Nothing of it was kept, and the transactions it met have their
 * locks by then. A caller over HTTP would get a 500 for what succeeds a moment later; jobs and loops are repeated as a whole anyway.
 */
import postgres from "postgres";
import type { Sql } from "./client.ts";

/** deadlock_detected, Appendix A of Postgres' documentation. */
const DEADLOCK_DETECTED = "40P01";
/** Each try may wait for Postgres' deadlock_timeout, one second by default. */
const TRIES_MAX = 3;

/** The same pool. Functions given to its `begin` must have no effect outside the transaction: they may run up to three times. */
export function repeatDeadlocked(sql: Sql): Sql {
  const begin = sql.begin as (...args: unknown[]) => Promise<unknown>;
  const repeat = async (...args: unknown[]) => {
    for (let tries = 1; ; tries++) {
      try {
        return await begin(...args);
      } catch (error) {
        const isDeadlocked = error instanceof postgres.PostgresError && error.code === DEADLOCK_DETECTED;
        if (!isDeadlocked || tries === TRIES_MAX) throw error;
      }
    }
  };
  return Object.assign(sql, { begin: repeat as Sql["begin"] });
}
