/** Sets aside a database in the data folder that this version cannot upgrade. */
import { EarlierSchemaError } from "../../db/postgres/baseline.ts";
import { openDatabase } from "../../db/postgres/client.ts";
import { readPending } from "../../db/postgres/migrate.ts";

/** Renames it on the same server and creates an empty one under its name. Returns one sentence about both, or undefined. */
export async function setAsideDatabase(databaseUrl: string): Promise<string | undefined> {
  if (!(await isEarlier(databaseUrl))) return undefined;
  const server = new URL(databaseUrl);
  const name = server.pathname.slice(1);
  server.pathname = "/postgres";
  const kept = `${name}_until_${new Date().toISOString().replace(/\D/g, "").slice(0, 14)}`;
  const sql = openDatabase(server.href, { name: "local", maxConnections: 1 });
  try {
    await sql`alter database ${sql(name)} rename to ${sql(kept)}`;
    await sql`create database ${sql(name)}`;
  } finally {
    await sql.end({ timeout: 5 });
  }
  return `The database ${name} is of an earlier version and can't be upgraded: a new one starts, the old one is kept as ${kept}.`;
}

async function isEarlier(databaseUrl: string): Promise<boolean> {
  const sql = openDatabase(databaseUrl, { name: "local", maxConnections: 1 });
  try {
    await readPending(sql);
    return false;
  } catch (error) {
    if (error instanceof EarlierSchemaError) return true;
    throw error;
  } finally {
    await sql.end({ timeout: 5 });
  }
}
