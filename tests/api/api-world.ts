/** API processes on a database, a chain and a mailbox of their own, without worker and indexer: mails are read from the outbox route. */

import { openDatabase, type Sql } from "../../db/client.ts";
import { localAccount } from "../../local/accounts.ts";
import { startTestChain, type TestChain } from "../support/chain.ts";
import { createTestDatabase } from "../support/postgres.ts";
import { type ProcessName, type Service, startService } from "../support/world.ts";

export type ApiWorld = Service & { sql: Sql; chain: TestChain; databaseUrl: string };

/** Limits are off unless `env` says RATE_LIMITS=1. */
export async function startApiWorld(
  options: { env?: Record<string, string>; processes?: readonly ProcessName[] } = {},
): Promise<ApiWorld> {
  const [db, chain] = await Promise.all([createTestDatabase(), startTestChain()]);
  const sql = openDatabase(db.url, { name: "test", maxConnections: 4 });
  const relayer = localAccount(0);
  await sql`
    insert into relayers (network, address, next_nonce)
    values ('base-sepolia', ${relayer.address.toLowerCase()}, 0)`;
  const end = async () => {
    await sql.end({ timeout: 1 });
    await Promise.all([db.drop(), chain.stop()]);
  };
  try {
    const service = await startService({
      db,
      chain,
      smtp: { smtpUrl: "smtp://127.0.0.1:1" },
      processes: options.processes ?? ["api"],
      env: { NODE_ENV: "test", RATE_LIMITS: "0", ...options.env },
    });
    const stop = async () => {
      await service.stop();
      await end();
    };
    return { ...service, sql, chain, databaseUrl: db.url, stop };
  } catch (error) {
    await end();
    throw error;
  }
}
