/** A pool named "victim" on a database of its own, and another way in, named "killer", to cut its connections by. */
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { createTestDatabase } from "./postgres.ts";

export type BreakablePool = { url: string; sql: Sql; killer: Sql; stop: () => Promise<void> };

export async function openBreakablePool(connections: number): Promise<BreakablePool> {
  const db = await createTestDatabase();
  const sql = openDatabase(db.url, { name: "victim", maxConnections: connections });
  const killer = openDatabase(db.url, { name: "killer", maxConnections: 2 });
  return {
    url: db.url,
    sql,
    killer,
    async stop() {
      await Promise.all([sql, killer].map((one) => one.end({ timeout: 1 })));
      await db.drop();
    },
  };
}
