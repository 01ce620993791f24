/**
 * The baseline schema on an empty database, then numbered migrations, once each, in order, under one lock: safe when several processes
 * start together.
 */
import { readdir, readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";
import postgres from "postgres";
import { readAddress } from "./address.ts";
import { applyFile, type SchemaFile } from "./apply-migration.ts";
import { BASELINE, hashOf, isAdoptable, isReplaced, readBaseline, refuseEarlier } from "./baseline.ts";
import type { Tx } from "./client.ts";
import { lockMigrations } from "./migration-lock.ts";
import { SESSION_OPTIONS, SESSION_SETTINGS } from "./session-settings.ts";

const MIGRATIONS_DIR = new URL("../migrations/", import.meta.url);
const FILE_NAME = /^\d{4}_[a-z0-9_]+\.sql$/;
/** The first line of a migration with which processes of the previous version cannot run. */
export const NEEDS_STOP = "-- needs: all processes stopped\n";
/** A process that has not reported for this long, three report intervals, has ended. */
const SILENT_AFTER_S = 30;

export type MigrateOptions = {
  /** Restricts the migrations after the baseline to these. */
  only?: readonly string[] | undefined;
  /** Called with what a migration is waiting for, again when that changes. */
  onWait?: ((line: string) => void) | undefined;
  /** Where the migrations are. */
  folder?: string | undefined;
};

/**
 * Brings the database to the newest schema and returns the names applied now. Throws, with the database unchanged, when an applied file
 * was changed since, when a newer version has migrated it, and when it lacks migrations that the baseline has replaced.
 * Waits for as long as a backup runs or another transaction holds a lock it needs, without holding one itself.
 */
export async function migrate(
  databaseUrl: string,
  { only, onWait = () => {}, folder }: MigrateOptions = {},
): Promise<string[]> {
  const { url, ...tls } = readAddress(databaseUrl);
  const sql = postgres(url, {
    ...tls,
    max: 1,
    // the locks are this connection's
    max_lifetime: null,
    onnotice: () => {},
    connection: { ...SESSION_SETTINGS, application_name: "migrate" },
  });
  try {
    await lockMigrations(sql, onWait);
    const known = await readApplied(sql as unknown as Tx);
    const names = [...known.keys()];
    const files = await readFiles(names, folder);
    const newer = await listUnknownMigrations(names, folder);
    // older code runs on a newer schema for the length of an upgrade; it does not know how to change it
    if (newer.length > 0)
      throw new Error(
        `the database was migrated by a newer version (it has ${newer.join(", ")}) and a schema cannot be downgraded: ` +
          "use that version, or restore a backup from before it into an empty database",
      );
    await prepareJobs(databaseUrl);
    const wanted = files.filter(({ name }) => name === BASELINE || (only?.includes(name) ?? true));
    await refuseWhileRunning(
      sql,
      wanted.filter(({ name }) => names.length > 0 && !known.has(name)),
    );
    const applied = await applyFiles(sql, known, { files: wanted, onWait });
    // after a restore into another cluster; no other transaction waits for this one here
    await sql`select write_event_epoch()`;
    return applied;
  } finally {
    await sql.end({ timeout: 5 });
  }
}

/** Throws, before changing anything, when a pending migration needs all processes stopped and one has reported recently. */
async function refuseWhileRunning(sql: postgres.Sql, pending: readonly SchemaFile[]): Promise<void> {
  const [needy] = pending.filter(({ text }) => text.startsWith(NEEDS_STOP));
  if (!needy) return;
  const running = await sql<{ kind: string; host: string; pid: number }[]>`
    select kind, host, pid
    from processes
    where seen_at > now() - make_interval(secs => ${SILENT_AFTER_S})
    order by kind, host, pid`;
  if (running.length === 0) return;
  throw new Error(
    `${needy.name} needs all processes of the service stopped, and ${running.map(({ kind, host, pid }) => `${kind} (${host}, pid ${pid})`).join(", ")} ` +
      `reported within the last ${SILENT_AFTER_S} s: stop each, and start migrate again`,
  );
}

/** Names and hashes of the applied migrations. */
async function readApplied(sql: Tx): Promise<Map<string, string>> {
  const [found] = await sql<
    { exists: boolean }[]
  >`select to_regclass('public.migrations') is not null as exists`;
  if (!found?.exists) return new Map();
  const rows = await sql<
    { name: string; sha256: string }[]
  >`select name, sha256 from migrations order by name`;
  return new Map(rows.map((row) => [row.name, row.sha256]));
}

/** Those of `names` that this version does not have. */
export async function listUnknownMigrations(names: readonly string[], folder?: string): Promise<string[]> {
  const own = new Set([BASELINE, ...(await listMigrationNames(folder))]);
  return names.filter((name) => !own.has(name) && !isReplaced(name)).sort();
}

/** The migrations that `migrate` would apply to the database, with their text. Throws when it would refuse to. */
export async function readPending(sql: Tx, folder?: string): Promise<{ name: string; text: string }[]> {
  const known = await readApplied(sql);
  return (await readFiles([...known.keys()], folder)).filter(({ name }) => !known.has(name));
}

/**
 * What separates the database from this version: `pending` are migrations that it lacks, `unknown` those of a newer version. Throws when
 * the database is unavailable.
 */
export async function compareSchema(sql: Tx): Promise<{ pending: string[]; unknown: string[] }> {
  const known = await readApplied(sql);
  const { replaced, later } = await listMigrations([...known.keys()]);
  return {
    pending: [...replaced, BASELINE, ...later].filter((name) => !known.has(name)),
    unknown: await listUnknownMigrations([...known.keys()]),
  };
}

async function applyFiles(
  sql: postgres.Sql,
  known: ReadonlyMap<string, string>,
  { files, onWait }: { files: readonly SchemaFile[]; onWait: (line: string) => void },
): Promise<string[]> {
  await sql`
    create table if not exists migrations (
      name text primary key,
      sha256 text not null,
      applied_at timestamptz not null default now()
    )`;
  const applied: string[] = [];
  for (const file of files) {
    const before = known.get(file.name);
    if (before === file.sha256) continue;
    if (before)
      throw new Error(`migration ${file.name} was changed after it was applied; add a new file instead`);
    await applyFile(sql, file, onWait);
    applied.push(file.name);
  }
  return applied;
}

/**
 * The baseline and the migrations after it. A database of before gets those that it lacks of what the baseline replaces, as far as they are
 * here, and of the baseline the name alone. Throws when it lacks others.
 */
async function readFiles(known: readonly string[], folder?: string): Promise<SchemaFile[]> {
  const { replaced, later } = await listMigrations(known, folder);
  refuseEarlier("database", known, replaced);
  const baseline = await readBaseline();
  const read = async (name: string) => {
    const text = await readFile(new URL(name, urlOf(folder)), "utf8");
    return { name, text, sha256: hashOf(text) };
  };
  return [
    ...(await Promise.all(replaced.map(read))),
    isAdoptable([...known, ...replaced]) ? { ...baseline, text: "" } : baseline,
    ...(await Promise.all(later.map(read))),
  ];
}

/** What a database with these names still needs of what the baseline replaces, and all migrations after it. */
async function listMigrations(known: readonly string[], folder?: string) {
  const names = await listMigrationNames(folder);
  const isWhole = known.length === 0 || known.includes(BASELINE);
  return {
    replaced: isWhole ? [] : names.filter((name) => isReplaced(name) && !known.includes(name)),
    later: names.filter((name) => !isReplaced(name)),
  };
}

async function listMigrationNames(folder?: string): Promise<string[]> {
  return (await readdir(urlOf(folder))).filter((name) => FILE_NAME.test(name)).sort();
}

function urlOf(folder: string | undefined): URL {
  return folder === undefined ? MIGRATIONS_DIR : pathToFileURL(`${folder}/`);
}

/** Loaded only here: every process checks what is pending, and these packages take several megabytes. */
async function prepareJobs(databaseUrl: string): Promise<void> {
  const [{ Logger, runMigrations }, { Pool }] = await Promise.all([import("graphile-worker"), import("pg")]);
  const { url: connectionString, ...tls } = readAddress(databaseUrl);
  const pgPool = new Pool({ connectionString, ...tls, options: SESSION_OPTIONS });
  // a statement on a lost connection rejects by itself; an error of an idle or closing one would end the process
  pgPool.on("error", () => undefined);
  pgPool.on("connect", (client) => client.on("error", () => undefined));
  try {
    await runMigrations({ pgPool, logger: new Logger(() => () => {}) });
  } finally {
    await pgPool.end();
  }
}
