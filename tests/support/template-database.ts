/** The migrated database that a server's other databases are copied from. */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import postgres from "postgres";
import { migrate } from "../../db/postgres/migrate.ts";

const SCHEMA_FOLDER = join(import.meta.dir, "../../db");
const TEMPLATE_LOCK = 7_041_900;

/** Makes the template when the schema's files have none yet, and returns its name. Safe when several processes ask at once. */
export function prepareTemplate(adminUrl: string): Promise<string> {
  const known = preparing.get(adminUrl) ?? makeTemplate(adminUrl);
  preparing.set(adminUrl, known);
  return known;
}
const preparing = new Map<string, Promise<string>>();

async function makeTemplate(adminUrl: string): Promise<string> {
  const template = `test_template_${hashOfSchema()}`;
  await asAdmin(adminUrl, async (sql) => {
    await sql`select pg_advisory_lock(${TEMPLATE_LOCK})`;
    const found = await sql`select 1 from pg_database where datname = ${template}`;
    if (found.length > 0) return;
    // Migrated under another name: a half-made template is never taken for a whole one.
    const draft = `${template}_draft`;
    await sql`drop database if exists ${sql(draft)} with (force)`;
    await sql`create database ${sql(draft)}`;
    await migrate(withDatabase(adminUrl, draft));
    await endConnections(sql, draft);
    await sql`alter database ${sql(draft)} rename to ${sql(template)}`;
  });
  return template;
}

async function endConnections(sql: postgres.Sql, database: string): Promise<void> {
  await sql`select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = ${database}`;
}

/** Copied by the kernel: the default writes every page to the log. */
export async function createFromTemplate(
  sql: postgres.Sql,
  { name, template }: { name: string; template: string },
): Promise<void> {
  await sql`create database ${sql(name)} template ${sql(template)} strategy file_copy`;
}

function hashOfSchema(): string {
  const hash = createHash("sha256");
  for (const folder of ["schema", "migrations"])
    for (const name of readdirSync(join(SCHEMA_FOLDER, folder)).sort())
      hash.update(name).update(readFileSync(join(SCHEMA_FOLDER, folder, name)));
  for (const name of ["migrate.ts", "baseline.ts"])
    hash.update(readFileSync(join(SCHEMA_FOLDER, "postgres", name)));
  return hash.digest("hex").slice(0, 16);
}

export function withDatabase(url: string, database: string): string {
  const parsed = new URL(url);
  parsed.pathname = `/${database}`;
  return parsed.href;
}

/** One connection. No statement here has an array, whose types the driver would ask for at every connection. */
export function openAdmin(adminUrl: string): postgres.Sql {
  return postgres(adminUrl, { max: 1, fetch_types: false, prepare: false, onnotice: () => {} });
}

export async function asAdmin<Result>(
  adminUrl: string,
  work: (sql: postgres.Sql) => Promise<Result>,
): Promise<Result> {
  const sql = openAdmin(adminUrl);
  try {
    return await work(sql);
  } finally {
    await sql.end({ timeout: 5 });
  }
}
