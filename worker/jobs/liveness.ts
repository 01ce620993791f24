/** Holds a pool's liveness lock and unlocks the jobs of dead pools, so that a kill -9 costs seconds instead of the queue's four hours. */
import { openFailureLog } from "../../core/runtime/failure-log.ts";
import type { Log } from "../../core/runtime/log.ts";
import { holdLiveness, isAlive, type Liveness, releaseDeadPools } from "../../db/jobs/dead-workers.ts";
import type { Sql } from "../../db/postgres/client.ts";

const CHECK_MS = 1_000;

/** Watches until the returned function is called; then the pool counts as dead. */
export function watchLiveness(sql: Sql, log: Log, poolId: string): () => Promise<void> {
  const over = Promise.withResolvers<void>();
  let held: Liveness | undefined;
  const logFailure = openFailureLog(log);
  let stopped = false;

  async function check(): Promise<void> {
    try {
      if (held && !(await isAlive(sql, poolId))) await giveUp();
      held ??= await holdLiveness(sql, poolId);
      const freed = await releaseDeadPools(sql);
      if (freed.length > 0) log.warn({ pools: freed }, "jobs of dead workers unlocked");
    } catch (error) {
      // a failed check says nothing about the lock that is held
      logFailure("warn", { err: error }, "liveness check failed; retrying");
    }
  }

  async function giveUp(): Promise<void> {
    const lost = held;
    held = undefined;
    await lost?.release();
  }

  async function watch(): Promise<void> {
    while (!stopped) {
      await check();
      if (!stopped) await Promise.race([Bun.sleep(CHECK_MS), over.promise]);
    }
    // also whatever a last check locked while it was being stopped
    await giveUp();
  }

  const watching = watch();
  return () => {
    stopped = true;
    over.resolve();
    return watching;
  };
}
