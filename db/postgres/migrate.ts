/**
 * The baseline schema on an empty database, then numbered migrations, once each, in order, under one lock: safe when several processes
 * start together.
 */
import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import postgres from "postgres";
import { applyFile, type SchemaFile } from "./apply-migration.ts";
import type { Tx } from "./client.ts";
import { lockMigrations } from "./migration-lock.ts";

const SCHEMA_DIR = new URL("../schema/", import.meta.url);
const MIGRATIONS_DIR = new URL("../migrations/", import.meta.url);
/** In the order their references need. */
const BASELINE_FILES = [
  "accounts",
  "links",
  "relays",
  "payments",
  "ledger",
  "transactions",
  "exports",
  "events",
  "http",
];
const BASELINE = "baseline";
const FILE_NAME = /^\d{4}_[a-z0-9_]+\.sql$/;

export type MigrateOptions = {
  before?: string | undefined;
  only?: readonly string[] | undefined;
  /** Told what a migration waits for, again when that changes. */
  onWait?: ((line: string) => void) | undefined;
};

/**
 * Brings the database to the newest schema and returns the names applied now. Throws when an applied file was changed since, and when
 * the database was made before there was a baseline. `before`: only the migrations whose names sort before it; `only`: these and no others.
 * Waits for as long as a backup runs or another transaction holds a lock it needs, without holding one itself.
 */
export async function migrate(
  databaseUrl: string,
  { before, only, onWait = () => {} }: MigrateOptions = {},
): Promise<string[]> {
  const sql = postgres(databaseUrl, {
    max: 1,
    // the locks are this connection's
    max_lifetime: null,
    onnotice: () => {},
    connection: { application_name: "migrate" },
  });
  try {
    await lockMigrations(sql, onWait);
    const known = await readApplied(sql);
    await refuseNewer(known);
    await prepareJobs(databaseUrl);
    const applied = await applyFiles(sql, known, {
      isWanted: ({ name }) => (before === undefined || name < before) && (only?.includes(name) ?? true),
      onWait,
    });
    // after a restore into another cluster; no other transaction waits for this one here
    await sql`select write_event_epoch()`;
    return applied;
  } finally {
    await sql.end({ timeout: 5 });
  }
}

/** Names and hashes of what the database has. Throws, with the database unchanged, for one that has migrations but no baseline. */
async function readApplied(sql: postgres.Sql): Promise<Map<string, string>> {
  const [found] = await sql<
    { exists: boolean }[]
  >`select to_regclass('public.migrations') is not null as exists`;
  if (!found?.exists) return new Map();
  const rows = await sql<{ name: string; sha256: string }[]>`select name, sha256 from migrations`;
  const known = new Map(rows.map((row) => [row.name, row.sha256]));
  if (known.size > 0 && !known.has(BASELINE))
    throw new Error(
      `this database was made by a version before the baseline schema (it has the migration ${[...known.keys()].sort().at(-1)}) ` +
        "and can't be upgraded: name an empty database in DATABASE_URL and keep this one",
    );
  return known;
}

/** Those of `names` that this version does not have. */
export async function listUnknownMigrations(names: readonly string[]): Promise<string[]> {
  const own = new Set([BASELINE, ...(await listMigrationNames())]);
  return names.filter((name) => !own.has(name)).sort();
}

/** Older code runs on a newer schema for the length of an upgrade; it does not know how to change it. */
async function refuseNewer(known: ReadonlyMap<string, string>): Promise<void> {
  const newer = await listUnknownMigrations([...known.keys()]);
  if (newer.length > 0)
    throw new Error(
      `the database was migrated by a newer version (it has ${newer.join(", ")}) and a schema does not go back: ` +
        "use that version, or restore a backup from before it into an empty database",
    );
}

/** The migrations that `migrate` would apply to the database, with their text. */
export async function readPending(sql: Tx): Promise<{ name: string; text: string }[]> {
  const { pending } = await compareSchema(sql);
  const files = [await readBaseline(), ...(await readMigrationFiles())];
  return files.filter(({ name }) => pending.includes(name));
}

/**
 * What separates the database from this version: `pending` are migrations that it lacks, `unknown` those of a newer version. Throws when
 * the database is unavailable.
 */
export async function compareSchema(sql: Tx): Promise<{ pending: string[]; unknown: string[] }> {
  const [found] = await sql<{ exists: boolean }[]>`
    select to_regclass('public.migrations') is not null as exists`;
  const rows = found?.exists ? await sql<{ name: string }[]>`select name from migrations order by name` : [];
  const applied = new Set(rows.map(({ name }) => name));
  const own = [BASELINE, ...(await listMigrationNames())];
  return {
    pending: own.filter((name) => !applied.has(name)),
    unknown: [...applied].filter((name) => !own.includes(name)),
  };
}

async function applyFiles(
  sql: postgres.Sql,
  known: ReadonlyMap<string, string>,
  { isWanted, onWait }: { isWanted: (file: SchemaFile) => boolean; onWait: (line: string) => void },
): Promise<string[]> {
  await sql`
    create table if not exists migrations (
      name text primary key,
      sha256 text not null,
      applied_at timestamptz not null default now()
    )`;
  const applied: string[] = [];
  const migrations = (await readMigrationFiles()).filter(isWanted);
  for (const file of [await readBaseline(), ...migrations]) {
    const before = known.get(file.name);
    if (before === file.sha256) continue;
    if (before)
      throw new Error(`migration ${file.name} was changed after it was applied; add a new file instead`);
    await applyFile(sql, file, onWait);
    applied.push(file.name);
  }
  return applied;
}

async function readBaseline(): Promise<SchemaFile> {
  const texts = await Promise.all(
    BASELINE_FILES.map((name) => readFile(new URL(`${name}.sql`, SCHEMA_DIR), "utf8")),
  );
  return toFile(BASELINE, texts.join("\n"));
}

async function readMigrationFiles(): Promise<SchemaFile[]> {
  return Promise.all(
    (await listMigrationNames()).map(async (name) =>
      toFile(name, await readFile(new URL(name, MIGRATIONS_DIR), "utf8")),
    ),
  );
}

async function listMigrationNames(): Promise<string[]> {
  return (await readdir(MIGRATIONS_DIR)).filter((name) => FILE_NAME.test(name)).sort();
}

function toFile(name: string, text: string): SchemaFile {
  return { name, text, sha256: createHash("sha256").update(text).digest("hex") };
}

/** Loaded here alone: every process asks what is pending, and its packages take several megabytes. */
async function prepareJobs(databaseUrl: string): Promise<void> {
  const [{ Logger, runMigrations }, { Pool }] = await Promise.all([import("graphile-worker"), import("pg")]);
  const pgPool = new Pool({ connectionString: databaseUrl });
  // a statement on a lost connection rejects by itself; an error of an idle or closing one would end the process
  pgPool.on("error", () => undefined);
  pgPool.on("connect", (client) => client.on("error", () => undefined));
  try {
    await runMigrations({ pgPool, logger: new Logger(() => () => {}) });
  } finally {
    await pgPool.end();
  }
}
