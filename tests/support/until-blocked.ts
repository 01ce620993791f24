/** For races between two transactions: the moment at which the second one waits for the first. */
import type { Sql, Tx } from "../../db/postgres/client.ts";
import { openPauses } from "./poll.ts";

const TIMEOUT_MS = 90_000;

/** Resolves when a transaction of this database waits for another one's row, or when `work` is over without that. */
export async function untilBlocked(sql: Sql, work?: Promise<unknown>): Promise<void> {
  let isOver = false;
  const ended = () => {
    isOver = true;
  };
  work?.then(ended, ended);
  const deadline = Date.now() + TIMEOUT_MS;
  const pause = openPauses(5);
  while (!isOver) {
    const rows = await sql`
      select from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'`;
    if (rows.length > 0) return;
    if (Date.now() > deadline) throw new Error(`no transaction waited for a lock within ${TIMEOUT_MS} ms`);
    await pause();
  }
}

/**
 * Runs `other` while a transaction holds what `first` locks, which locks `second` once `other` waits. Fails when `other` holds that: they would
 * deadlock, which a caller that retries would hide.
 */
export async function meet(
  sql: Sql,
  { first, second }: { first: (tx: Tx) => Promise<unknown>; second: (tx: Tx) => Promise<unknown> },
  other: () => Promise<unknown>,
): Promise<void> {
  let running: Promise<unknown> | undefined;
  await sql.begin(async (tx) => {
    await first(tx);
    running = other();
    await untilBlocked(sql, running);
    await tx`set local lock_timeout = '200ms'`;
    await second(tx);
  });
  await running;
}
