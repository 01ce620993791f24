/** The database as the processes will meet it: reachable, recent, in UTF-8, migrated, with connections for all of them. */

import { describeSpace, isNearlyFull, readDiskSpace } from "../../core/runtime/machine-limits.ts";
import { isOnThisMachine } from "../../core/runtime/public-url.ts";
import { listForeignRpIds } from "../../db/auth/passkeys.ts";
import { readAddress } from "../../db/postgres/address.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { inspectDatabase } from "../../db/postgres/inspect-database.ts";
import { describeDatabaseFailure } from "../../db/postgres/retry-while-unavailable.ts";
import { checkSecrets } from "./check-secrets.ts";
import { advice, type Finding, fault, good } from "./finding.ts";
import type { Configuration } from "./read-configuration.ts";

/** One of each kind, and a second indexer that stands by. */
const INDEXERS = 2;
/** Each api and worker process listens on one, and opens one more at its start. */
const EXTRA_CONNECTIONS = 2;

export async function checkDatabase({ api, worker, indexer }: Configuration): Promise<Finding[]> {
  const url = (api ?? worker ?? indexer)?.databaseUrl;
  if (url === undefined) return [];
  const sql = openDatabase(url, { name: "doctor", maxConnections: 1 });
  try {
    await sql`select 1`;
  } catch (error) {
    await sql.end({ timeout: 1 });
    return [fault("database", explainUnreachable(new URL(url), error))];
  }
  try {
    const { refusal, risks } = await inspectDatabase(sql, url);
    if (refusal) return [fault("database", refusal)];
    return [
      good("database", `${new URL(url).host} responds, and its schema is up to date`),
      ...risks.map((risk) => advice(risk.includes("clock") ? "clock" : "database", risk)),
      ...describeEncryption(new URL(url)),
      ...(await checkConnections(sql, { api, worker, indexer })),
      ...(await checkPasskeys(sql, api)),
      ...(worker ? await checkSecrets(sql, worker) : []),
      ...(await checkDataDisk(sql, url)),
    ];
  } finally {
    await sql.end({ timeout: 1 });
  }
}

const CAUSES: Readonly<Record<string, (url: URL) => string>> = {
  ECONNREFUSED: ({ host }) => `nothing listens at ${host}: start Postgres, or correct DATABASE_URL`,
  ENOTFOUND: ({ hostname }) => `the name ${hostname} does not resolve: correct DATABASE_URL`,
  EAI_AGAIN: ({ hostname }) =>
    `the name ${hostname} does not resolve at the moment: check this machine's DNS`,
  CONNECT_TIMEOUT: ({ host }) => `${host} did not answer within 5 s: check its address and the firewall`,
  "28P01": ({ username }) => `the password of "${username}" is wrong: correct it in DATABASE_URL`,
  "28000": ({ username }) => `"${username}" may not log in: check the server's roles and pg_hba.conf`,
  "3D000": ({ pathname }) => `there is no database "${pathname.slice(1)}": create it (createdb)`,
  "53300": () => "all connections of the server are in use: raise its max_connections",
};

function explainUnreachable(url: URL, error: unknown): string {
  const code = String((error as { code?: unknown }).code ?? "");
  return CAUSES[code]?.(url) ?? `${url.host} cannot be used: ${describeDatabaseFailure(url.href, error)}`;
}

function describeEncryption(url: URL): Finding[] {
  const { ssl } = readAddress(url.href);
  const isPrivate =
    isOnThisMachine(url.href.replace(/^postgres(ql)?:/, "http:")) || !url.hostname.includes(".");
  const isProven = ssl ? ssl.rejectUnauthorized : false;
  if (isProven || isPrivate) return [];
  if (ssl)
    return [
      advice(
        "database",
        `the connection to ${url.hostname} is encrypted, but nothing proves that it leads there: use sslmode=verify-full, with sslrootcert=FILE for an authority that this machine does not know`,
      ),
    ];
  return [
    advice(
      "database",
      `the connection to ${url.hostname} is not encrypted: add ?sslmode=verify-full unless the network is private`,
    ),
  ];
}

async function checkConnections(
  sql: Sql,
  { api, worker, indexer }: Pick<Configuration, "api" | "worker" | "indexer">,
): Promise<Finding[]> {
  if (!api || !worker || !indexer) return [];
  const sum = (pools: Record<string, number>) =>
    Object.values(pools).reduce((total, connections) => total + connections, 0);
  const needed =
    sum(api.connections) +
    sum(worker.connections) +
    2 * EXTRA_CONNECTIONS +
    INDEXERS * (indexer.poolConnections + indexer.chains.length);
  const [row] = await sql<{ available: number }[]>`
    select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
      as available`;
  const available = row?.available ?? 0;
  if (available >= needed)
    return [
      good("database", `${available} connections; one api, one worker and two indexers need ${needed}`),
    ];
  return [
    fault(
      "database",
      `the server allows ${available} connections, but one api, one worker and two indexers need ${needed}: raise max_connections, or lower DATABASE_MAX_CONNECTIONS and WORKER_DATABASE_MAX_CONNECTIONS`,
    ),
  ];
}

async function checkPasskeys(sql: Sql, api: Configuration["api"]): Promise<Finding[]> {
  if (!api) return [];
  const { rpId } = api.passkey;
  const foreign = await listForeignRpIds(sql, rpId);
  if (foreign.length === 0) return [];
  const found = foreign.map((one) => `${one.count} of "${one.rpId}"`).join(", ");
  return [
    fault(
      "domain",
      `RP_ID is "${rpId}", but the database holds passkeys of other relying parties: ${found}. Set RP_ID to theirs`,
    ),
  ];
}

/** Only where the server's files are on this machine, and its user may know where. */
async function checkDataDisk(sql: Sql, url: string): Promise<Finding[]> {
  if (!isOnThisMachine(url.replace(/^postgres(ql)?:/, "http:"))) return [];
  const rows = await sql<{ folder: string }[]>`select current_setting('data_directory') as folder`.catch(
    () => [],
  );
  const space = rows[0] && readDiskSpace(rows[0].folder);
  if (!space || !isNearlyFull(space)) return [];
  return [
    fault(
      "machine",
      `the database's disk is nearly full: ${describeSpace(space)}; enlarge it before it fills up`,
    ),
  ];
}
