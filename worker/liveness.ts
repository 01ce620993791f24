/** Says that this worker lives, and frees the jobs of workers that don't: a kill -9 costs seconds, not the queue's four hours. */
import type { Log } from "../core/runtime/log.ts";
import type { Sql } from "../db/client.ts";
import { freeDeadPools, holdLiveness, isAlive, type Liveness } from "../db/liveness.ts";

const CHECK_MS = 1_000;

/** Watches until the returned function is called. */
export function watchLiveness(sql: Sql, log: Log, poolId: string): () => Promise<void> {
  let held: Liveness | undefined;
  let stopped = false;
  let timer: ReturnType<typeof setTimeout> | undefined;

  async function check(): Promise<void> {
    try {
      if (held && !(await isAlive(sql, poolId))) held = undefined;
      held ??= await holdLiveness(sql, poolId);
      const freed = await freeDeadPools(sql);
      if (freed.length > 0) log.warn({ pools: freed }, "freed the jobs of dead workers");
    } catch (error) {
      held = undefined;
      log.warn({ err: error }, "liveness check failed; trying again");
    }
    if (!stopped) timer = setTimeout(check, CHECK_MS);
  }

  let last = check();
  return async () => {
    stopped = true;
    clearTimeout(timer);
    await last.catch(() => undefined);
    last = Promise.resolve();
    await held?.release();
  };
}
