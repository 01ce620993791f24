/** Databases for tests: migrated once into a template, cloned for each test file, dropped afterwards. */
import { randomBytes } from "node:crypto";
import type postgres from "postgres";
import { startEmbeddedServer, type TestServer } from "./postgres-server.ts";
import {
  asAdmin,
  createFromTemplate,
  openAdmin,
  prepareTemplate,
  withDatabase,
} from "./template-database.ts";

export type TestDatabase = { url: string; name: string; drop: () => Promise<void> };

/** Of a test's own pool: it holds a lock for as long as other processes take to come to it. */
export const TEST_POOL = { name: "test", idleInTransactionTimeoutMs: 0 } as const;

/** Set by tests/run.ts so that all test processes share one server. */
export const SERVER_URL_VARIABLE = "TEST_SERVER_URL";

/** A database of its own with the newest schema and no rows. */
export async function createTestDatabase(): Promise<TestDatabase> {
  const adminUrl = await findServer();
  const template = await prepareTemplate(adminUrl);
  const name = `test_${process.pid}_${randomBytes(5).toString("hex")}`;
  await administer(adminUrl, (sql) => createFromTemplate(sql, { name, template }));
  const drop = async () => {
    await administer(adminUrl, (sql) => sql`drop database if exists ${sql(name)} with (force)`);
  };
  return { url: withDatabase(adminUrl, name), name, drop };
}

/** A database of its own without any schema. */
export async function createEmptyDatabase(): Promise<TestDatabase> {
  const adminUrl = await findServer();
  const name = `test_empty_${process.pid}_${randomBytes(5).toString("hex")}`;
  await administer(adminUrl, (sql) => sql`create database ${sql(name)}`);
  const drop = async () => {
    await administer(adminUrl, (sql) => sql`drop database if exists ${sql(name)} with (force)`);
  };
  return { url: withDatabase(adminUrl, name), name, drop };
}

/**
 * On the one connection that this process keeps to the run's server: a new one costs as much CPU time as making a database. Elsewhere, where
 * an open connection would keep a script from ending, on its own.
 */
async function administer(adminUrl: string, work: (sql: postgres.Sql) => Promise<unknown>): Promise<void> {
  if (adminUrl !== process.env[SERVER_URL_VARIABLE]) return void (await asAdmin(adminUrl, work));
  admin ??= openAdmin(adminUrl);
  await work(admin);
}
let admin: postgres.Sql | undefined;

/** The run's server; for a test file started by itself, an embedded one that ends with this process. */
async function findServer(): Promise<string> {
  const given = process.env[SERVER_URL_VARIABLE] ?? process.env.TEST_DATABASE_URL;
  if (given) return given;
  ownServer ??= startEmbeddedServer();
  return (await ownServer).adminUrl;
}
let ownServer: Promise<TestServer> | undefined;
