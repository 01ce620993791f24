/** Real processes on a database and a chain of their own, with a connection for what a test puts in or looks up. */
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { type ProcessName, startWorld, type World } from "../support/world.ts";

export type MerchantWorld = World & { sql: Sql };

/** Limits are off unless `env` says RATE_LIMITS=1. */
export async function startMerchantWorld(
  options: { env?: Record<string, string>; processes?: readonly ProcessName[]; fromSources?: boolean } = {},
): Promise<MerchantWorld> {
  const world = await startWorld({
    ...options,
    env: { NODE_ENV: "test", RATE_LIMITS: "0", ...options.env },
  });
  const sql = openDatabase(world.db.url, { name: "test", maxConnections: 4 });
  const stop = async () => {
    await sql.end({ timeout: 1 });
    await world.stop();
  };
  return { ...world, sql, stop };
}
