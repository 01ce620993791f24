/**
 * Recovers jobs of dead workers. The queue library holds a killed worker's jobs for four hours; here each worker pool holds an advisory
 * lock for as long as its connection lives, and any pool that finds jobs of a pool without a lock releases them.
 */
import type { Sql, Tx } from "../postgres/client.ts";

/** First key of the two-key advisory locks that mark a worker pool as alive. */
export const LIVENESS_CLASS = 7_042;
/** Grace period between the start of a pool and its lock. */
const GRACE_S = 2;

export type Liveness = { release(): Promise<void> };

/**
 * Holds the pool's lock on a connection of its own until released or the process dies. Undefined while a dead session that the server
 * has not noticed yet holds it: the pool counts as alive then anyway.
 */
export async function holdLiveness(sql: Sql, poolId: string): Promise<Liveness | undefined> {
  const connection = await sql.reserve();
  let isHeld = false;
  try {
    const [row] = await connection<{ taken: boolean }[]>`
      select pg_try_advisory_lock(${LIVENESS_CLASS}, hashtext(${poolId})) as taken`;
    isHeld = row?.taken ?? false;
  } finally {
    if (!isHeld) connection.release();
  }
  if (!isHeld) return undefined;
  return {
    async release() {
      await connection`select pg_advisory_unlock(${LIVENESS_CLASS}, hashtext(${poolId}))`.catch(
        () => undefined,
      );
      connection.release();
    },
  };
}

/** Whether this pool's lock is still held; false after its connection was lost. */
export async function isAlive(tx: Tx, poolId: string): Promise<boolean> {
  const [row] = await tx<{ alive: boolean }[]>`
    select exists (
      select from pg_locks
      where locktype = 'advisory'
        and classid = ${LIVENESS_CLASS}
        and objid = (hashtext(${poolId})::bigint & 4294967295)::oid
        and database = (select oid from pg_database where datname = current_database())
    ) as alive`;
  return row?.alive ?? false;
}

/** Releases the jobs of dead pools. Returns those pools. */
export async function releaseDeadPools(tx: Tx): Promise<string[]> {
  const rows = await tx<{ lockedBy: string }[]>`
    with holders as (
      select distinct locked_by
      from graphile_worker._private_jobs
      where locked_by is not null and locked_at < now() - make_interval(secs => ${GRACE_S})
    ),
    dead as (
      select locked_by
      from holders
      where not exists (
        select from pg_locks
        where locktype = 'advisory'
          and classid = ${LIVENESS_CLASS}
          and objid = (hashtext(locked_by)::bigint & 4294967295)::oid
          and database = (select oid from pg_database where datname = current_database())
      )
    )
    select locked_by, graphile_worker.force_unlock_workers(array[locked_by])
    from dead`;
  return rows.map((row) => row.lockedBy);
}
