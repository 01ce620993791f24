/**
 * A worker pool's sign of life while connections beside it break: it is held once, all the time, and costs one connection. Of pools without
 * one, the jobs are released.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Log, openLog } from "../../core/runtime/log.ts";
import { holdLiveness, isAlive, LIVENESS_CLASS, releaseDeadPools } from "../../db/jobs/dead-workers.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { watchLiveness } from "../../worker/jobs/liveness.ts";
import { type BreakablePool, openBreakablePool } from "../support/breakable-pool.ts";
import { waitFor } from "../support/relay-lab.ts";
import { withDatabase } from "../support/template-database.ts";

const POOL = 3;
const POOL_ID = "pool-of-this-test";
const BROKEN_POLLS = 4;
/** Three looks, and far fewer statements than of a loop without a pause. */
const WATCHED_MS = 3_000;
const COMMITS_MAX = 50;
let pool: BreakablePool;
let sql: Sql;
let killer: Sql;

beforeAll(async () => {
  pool = await openBreakablePool(POOL);
  ({ sql, killer } = pool);
});
afterAll(() => pool?.stop());

async function holders(): Promise<number[]> {
  const rows = await killer<{ pid: number }[]>`
    select pid
    from pg_locks
    where locktype = 'advisory'
      and classid = ${LIVENESS_CLASS}
      and database = (select oid from pg_database where datname = current_database())`;
  return rows.map(({ pid }) => pid);
}

/** The next poll of the jobs waits for a table, and its connection is lost there. */
async function breakAPoll(): Promise<void> {
  await killer.begin(async (tx) => {
    await tx`lock table graphile_worker._private_jobs in access exclusive mode`;
    const poller = await waitFor("a poll", async () => {
      const [row] = await killer<{ pid: number }[]>`
        select pid
        from pg_stat_activity
        where datname = current_database() and application_name = 'victim' and wait_event_type = 'Lock'`;
      return row?.pid;
    });
    await killer`select pg_terminate_backend(${poller}, 5000)`;
  });
}

test("behavior: failing polls do not release the lock, a lost lock is taken again, and none is held after a stop", async () => {
  const stop = watchLiveness(sql, openLog("worker", "silent"), POOL_ID);
  const [holder] = await waitFor("the lock", async () => {
    const pids = await holders();
    return pids.length > 0 && pids;
  });
  for (let count = 0; count < BROKEN_POLLS; count++) await breakAPoll();
  // nor does anybody wait for it
  expect(await holders()).toEqual([holder ?? 0]);
  await killer`select pg_terminate_backend(${holder ?? 0}, 5000)`;
  const [next] = await waitFor("another lock", async () => {
    const pids = await holders();
    return pids.length > 0 && pids;
  });
  expect(next).not.toBe(holder);
  await breakAPoll();
  await waitFor("a poll that succeeds", () => isAlive(sql, POOL_ID));
  expect(await holders()).toEqual([next ?? 0]);
  const others = await Promise.all(Array.from({ length: POOL - 1 }, () => sql.reserve()));
  for (const connection of others) connection.release();
  await stop();
  expect(await holders()).toEqual([]);
}, 120_000);

test("a worker beside which none has died reports nothing, and looks about once a second", async () => {
  const warned: unknown[] = [];
  const log = {
    ...openLog("worker", "silent"),
    warn: (...given: unknown[]) => void warned.push(given),
  } as Log;
  const countCommits = async () => {
    const [row] = await killer<{ commits: number }[]>`
      select xact_commit::int as commits from pg_stat_database where datname = current_database()`;
    return row?.commits ?? 0;
  };
  const before = await countCommits();
  const stop = watchLiveness(sql, log, "pool-beside-no-other");
  await Bun.sleep(WATCHED_MS);
  await stop();
  expect((await countCommits()) - before).toBeLessThan(COMMITS_MAX);
  expect(warned).toEqual([]);
}, 120_000);

test("jobs of a pool without its lock are released; a lock of another pool, class or database is not its own", async () => {
  const [alive, dead, starting] = ["pool-alive", "pool-dead", "pool-starting"];
  for (const poolId of [alive, dead, starting])
    await sql`select graphile_worker.add_job('deliver_webhooks', json_build_object('pool', ${poolId}::text))`;
  await sql`
    update graphile_worker._private_jobs
    set
      locked_by = payload ->> 'pool',
      locked_at = now() - make_interval(secs => case payload ->> 'pool' when ${starting} then 0 else 60 end)`;
  const elsewhere = openDatabase(withDatabase(pool.url, "postgres"), {
    name: "elsewhere",
    maxConnections: 1,
  });
  await elsewhere`select pg_advisory_lock(${LIVENESS_CLASS}::int, hashtext(${dead}))`;
  const other = await killer.reserve();
  await other`select pg_advisory_lock(${LIVENESS_CLASS + 1}::int, hashtext(${dead}))`;
  const held = await holdLiveness(sql, alive);
  expect(await Promise.all([alive, dead].map((poolId) => isAlive(sql, poolId)))).toEqual([true, false]);
  expect(await releaseDeadPools(sql)).toEqual([dead]);
  const rows = await sql<{ lockedBy: string | null }[]>`
    select locked_by from graphile_worker._private_jobs order by payload ->> 'pool'`;
  expect(rows.map(({ lockedBy }) => lockedBy)).toEqual([alive, null, starting]);
  await held?.release();
  expect(await isAlive(sql, alive)).toBe(false);
  await other`select pg_advisory_unlock_all()`;
  other.release();
  await elsewhere.end({ timeout: 1 });
}, 120_000);
