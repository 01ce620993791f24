/** Of a pool's idle connections the one used last is used next: its process on the server has plans and catalogue at hand. */
import { expect, test } from "bun:test";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { createTestDatabase } from "../support/postgres.ts";

const POOL = 4;

test("sequential statements stay on one connection, concurrent ones use as many as available", async () => {
  const db = await createTestDatabase();
  const sql = openDatabase(db.url, { name: "test", maxConnections: POOL });
  try {
    const opened = new Set(await readPids(sql));
    expect(opened.size).toBe(POOL);
    const used = new Set<number>();
    for (let count = 0; count < 2 * POOL; count++) used.add(await readPid(sql));
    expect(used.size).toBe(1);
    expect(new Set(await readPids(sql))).toEqual(opened);
  } finally {
    await sql.end({ timeout: 5 });
    await db.drop();
  }
});

function readPids(sql: Sql): Promise<number[]> {
  return Promise.all(Array.from({ length: POOL }, () => readPid(sql)));
}

async function readPid(sql: Sql): Promise<number> {
  const [row] = await sql<{ pid: number }[]>`select pg_backend_pid() as pid`;
  return row?.pid ?? 0;
}
