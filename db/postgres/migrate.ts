/** Numbered SQL migrations, applied once each, in order, under one lock: safe when several processes start together. */
import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { runMigrations } from "graphile-worker";
import postgres from "postgres";
import { linkTag } from "../../core/domain/link-tag.ts";

const MIGRATIONS_DIR = new URL("../migrations/", import.meta.url);
/** Advisory lock every migrating process takes (any fixed number nobody else uses). */
const MIGRATION_LOCK = 7_041_001;
const TAGS_AT_ONCE = 1_000;
const FILE_NAME = /^\d{4}_[a-z0-9_]+\.sql$/;

/** Brings the database to the newest schema and returns the names applied now. Throws when an applied file was changed since. */
export async function migrate(databaseUrl: string): Promise<string[]> {
  const sql = postgres(databaseUrl, {
    max: 1,
    onnotice: () => {},
    connection: { application_name: "migrate" },
  });
  try {
    await sql`select pg_advisory_lock(${MIGRATION_LOCK})`;
    await runMigrations({ connectionString: databaseUrl, logger: await silentLogger() });
    const applied = await applyFiles(sql);
    await fillLinkTags(sql);
    // after a restore into another cluster: here nothing waits for this transaction
    await sql`select write_event_epoch()`;
    return applied;
  } finally {
    await sql.end({ timeout: 5 });
  }
}

async function applyFiles(sql: postgres.Sql): Promise<string[]> {
  await sql`
    create table if not exists migrations (
      name text primary key,
      sha256 text not null,
      applied_at timestamptz not null default now()
    )`;
  const rows = await sql<{ name: string; sha256: string }[]>`select name, sha256 from migrations`;
  const known = new Map(rows.map((row) => [row.name, row.sha256]));
  const applied: string[] = [];
  for (const file of await readMigrationFiles()) {
    const before = known.get(file.name);
    if (before === file.sha256) continue;
    if (before)
      throw new Error(`migration ${file.name} was changed after it was applied; add a new file instead`);
    await sql.begin(async (tx) => {
      await tx.unsafe(file.text);
      await tx`insert into migrations (name, sha256) values (${file.name}, ${file.sha256})`;
    });
    applied.push(file.name);
  }
  return applied;
}

/** Tags of links that are older than their column: Postgres has no keccak256. */
async function fillLinkTags(sql: postgres.Sql): Promise<void> {
  for (;;) {
    const rows = await sql<{ id: string }[]>`
      select id
      from payment_links
      where tag is null
      limit ${TAGS_AT_ONCE}`;
    if (rows.length === 0) return;
    await sql`
      update payment_links
      set tag = given.tag
      from unnest(
        ${rows.map(({ id }) => id)}::text[],
        ${rows.map(({ id }) => linkTag(id))}::text[]
      ) as given (id, tag)
      where payment_links.id = given.id`;
  }
}

async function readMigrationFiles() {
  const names = (await readdir(MIGRATIONS_DIR)).filter((name) => FILE_NAME.test(name)).sort();
  return Promise.all(
    names.map(async (name) => {
      const text = await readFile(new URL(name, MIGRATIONS_DIR), "utf8");
      return { name, text, sha256: createHash("sha256").update(text).digest("hex") };
    }),
  );
}

async function silentLogger() {
  const { Logger } = await import("graphile-worker");
  return new Logger(() => () => {});
}
