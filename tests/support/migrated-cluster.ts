/** The files of a Postgres that has a migrated database: made once a run, copied for each server that tests start. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { migrate } from "../../db/postgres/migrate.ts";
import {
  type LocalPostgres,
  type LocalPostgresOptions,
  startPostgres,
} from "../../local/postgres/postgres.ts";
import { copyCluster } from "./copy-cluster.ts";
import { asAdmin, createFromTemplate, prepareTemplate, withDatabase } from "./template-database.ts";

/** Set for the test processes of a run. Without it each server makes its files anew, and migrates: a second and a half of CPU. */
export const CLUSTER_VARIABLE = "TEST_CLUSTER";

/** Makes the files in `dataDir` for the servers to come. */
export async function makeMigratedCluster(dataDir: string): Promise<void> {
  const server = await startPostgres({ dataDir, durable: false });
  try {
    await prepareTemplate(server.url);
  } finally {
    await server.stop();
  }
}

/** Takes the run's files for a server that has none yet. False: there are none to take, or it has its own. */
export function takeMigratedCluster(dataDir: string): boolean {
  const cluster = process.env[CLUSTER_VARIABLE];
  if (cluster === undefined || existsSync(join(dataDir, "password"))) return false;
  copyCluster(cluster, dataDir);
  return true;
}

/** Starts a server on `dataDir`, whose database has the newest schema. */
export async function startMigratedPostgres({
  database,
  ...options
}: LocalPostgresOptions & { database: string }): Promise<LocalPostgres> {
  if (!takeMigratedCluster(options.dataDir)) {
    const own = await startPostgres({ database, ...options });
    await migrate(own.url);
    return own;
  }
  const server = await startPostgres(options);
  const template = await prepareTemplate(server.url);
  await asAdmin(server.url, (sql) => createFromTemplate(sql, { name: database, template }));
  const url = withDatabase(server.url, database);
  await openEventEpoch(url);
  return { ...server, url };
}

/** A server on copied files is another one for the events of its databases: as `migrate` does, so that none of their writers has to. */
export async function openEventEpoch(databaseUrl: string): Promise<void> {
  await asAdmin(databaseUrl, (sql) => sql`select write_event_epoch()`);
}
