/** A lock for work that only one process does at a time: a session advisory lock, released with its connection. */
import type { Sql } from "./client.ts";

/** First key of the two-key advisory locks for such work. */
const WORK_CLASS = 7_043;

/** Runs `work` unless another process runs work of this name. Returns whether it ran. */
export async function withWorkLock(sql: Sql, name: string, work: () => Promise<void>): Promise<boolean> {
  const connection = await sql.reserve();
  try {
    const [row] = await connection<{ taken: boolean }[]>`
      select pg_try_advisory_lock(${WORK_CLASS}, hashtext(${name})) as taken`;
    if (!row?.taken) return false;
    try {
      await work();
    } finally {
      await connection`select pg_advisory_unlock(${WORK_CLASS}, hashtext(${name}))`;
    }
    return true;
  } finally {
    connection.release();
  }
}
