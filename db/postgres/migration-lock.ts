/**
 * The right to change the schema: two advisory locks, taken by polling. A statement that waits for a lock keeps its snapshot, and a
 * concurrent build of an index would wait for that snapshot's end.
 */
import type postgres from "postgres";

/** Used by every version. Versions without concurrent builds wait for it in a single statement, so it is released while indexes are built. */
const SCHEMA_LOCK = 7_041_001;
/** Used by versions with concurrent builds; held throughout. */
const MIGRATOR_LOCK = 7_041_002;
const POLL_MS = 100;

export async function lockMigrations(sql: postgres.Sql, onWait: (line: string) => void): Promise<void> {
  await take(sql, MIGRATOR_LOCK, () => onWait("waiting for another process that is migrating this database"));
  await take(sql, SCHEMA_LOCK, () => onWait("waiting for another process that is migrating this database"));
}

/** An earlier version that waits for the lock then finds nothing to do: its migrations are applied. */
export async function withoutSchemaLock(sql: postgres.Sql, work: () => Promise<void>): Promise<void> {
  await sql`select pg_advisory_unlock(${SCHEMA_LOCK})`;
  try {
    await work();
  } finally {
    await take(sql, SCHEMA_LOCK, () => {});
  }
}

/** A reopened connection has lost the locks of the previous one, and another process may be migrating. */
export async function assertStillLocked(tx: postgres.Sql | postgres.TransactionSql): Promise<void> {
  const rows = await tx`
    select from pg_locks
    where locktype = 'advisory' and pid = pg_backend_pid() and granted
      and classid = 0 and objid = ${MIGRATOR_LOCK}::bigint::oid and objsubid = 1`;
  if (rows.length === 0) throw new Error("the migration's connection was lost: start the migration again");
}

async function take(sql: postgres.Sql, key: number, onWait: () => void): Promise<void> {
  for (let tries = 0; ; tries++) {
    const [row] = await sql<{ locked: boolean }[]>`select pg_try_advisory_lock(${key}) as locked`;
    if (row?.locked) return;
    if (tries === 0) onWait();
    await Bun.sleep(POLL_MS);
  }
}
