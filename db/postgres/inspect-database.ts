/** What a process asks about its database before it does anything: whether the way to it can work at all, and what an operator should know. */
import type { Sql } from "./client.ts";
import { isBehindPooler } from "./pooler.ts";
import { hasOnlyAsynchronousStandbys } from "./standby.ts";

export type DatabaseInspection = {
  /** Why the process must not start. */
  refusal: string | undefined;
  risks: string[];
};

const POOLER =
  "DATABASE_URL leads through a transaction pooler, which breaks LISTEN, session locks and prepared statements: use the database's direct address.";
const ASYNCHRONOUS =
  "a standby exists and none is synchronous: after a failover payments that were answered as settled may be forgotten (synchronous_standby_names)";

/** Throws when the database is unavailable. */
export async function inspectDatabase(sql: Sql, databaseUrl: string): Promise<DatabaseInspection> {
  if (await isBehindPooler(databaseUrl)) return { refusal: POOLER, risks: [] };
  return { refusal: undefined, risks: (await hasOnlyAsynchronousStandbys(sql)) ? [ASYNCHRONOUS] : [] };
}
