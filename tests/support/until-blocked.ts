/** For races between two transactions: the moment at which the second one waits for the first. */
import type { Sql } from "../../db/postgres/client.ts";
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
