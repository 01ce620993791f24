/** `migrate --plan`, the refusal of a downgrade, and old code on a newer schema. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { join } from "node:path";
import { BASELINE } from "../../db/postgres/baseline.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { inspectDatabase } from "../../db/postgres/inspect-database.ts";
import { describePlanned, planMigration, readLocks } from "../../db/postgres/plan-migration.ts";
import { makeMigrationFolder } from "../support/migration-folder.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";

const ROOT = join(import.meta.dir, "../..");
let db: TestDatabase;
let sql: Sql;

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 1 });
}, 120_000);
afterAll(async () => {
  await sql?.end({ timeout: 5 });
  await db?.drop();
});

async function runMigrate(url: string, ...args: string[]) {
  const child = Bun.spawn([process.execPath, "--no-env-file", "ops/migrate-main.ts", ...args], {
    cwd: ROOT,
    env: { PATH: process.env.PATH, DATABASE_URL: url },
    ...({ stdout: "pipe", stderr: "pipe" } as const),
  });
  const [output, errors] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  return { code: await child.exited, output, errors };
}

test("a plan names each missing migration and what waits for it, and changes nothing", async () => {
  const name = `${db.name}_plan`;
  const url = new URL(db.url);
  url.pathname = `/${name}`;
  await sql`create database ${sql(name)}`;
  try {
    const { code, output, errors } = await runMigrate(url.href, "--plan");
    expect(errors).toBe("");
    expect(code).toBe(0);
    expect(output).toMatch(new RegExp(`^${BASELINE}\n  creates .*payments, `));
    expect(output).toContain("nothing was changed");
    expect((await runMigrate(url.href, "--plan")).output).toBe(output);
    expect((await runMigrate(url.href)).output).toContain(`applied ${BASELINE}`);
    expect((await runMigrate(url.href, "--plan")).output).toBe("schema is up to date\n");
  } finally {
    await sql`drop database ${sql(name)} with (force)`;
  }
}, 120_000);

test("a plan states for each table whether reads wait as well, and how many rows it has", async () => {
  const folder = makeMigrationFolder({
    "9001_two_tables.sql": `
      alter table transfers add column a int;
      create index payments_a on payments (created_at);`,
    "9002_beside_writes.sql": "create index concurrently payments_b on payments (updated_at);",
  });
  try {
    expect((await planMigration(sql, folder.path)).flatMap(describePlanned)).toEqual([
      "9001_two_tables.sql",
      "  transfers (about 0 rows): reads and writes wait until it is applied",
      "  payments (about 0 rows): writes wait, reads do not until it is applied",
      "9002_beside_writes.sql",
      "  blocks nothing",
    ]);
  } finally {
    folder.remove();
  }
});

test("locks are derived from statements only, the strongest for each table, and none for a new one", () => {
  const text = `
    -- alter table commented add x int;
    create table made (id int);
    create index made_id on made (id);
    update links set a = 'alter table quoted';
    create unique index links_a on links (a);
    alter table only links add column b int;
    create index concurrently payments_a on payments (a);
    alter table payments set (fillfactor = 50);
    delete from events where id = 1;
    create function f() returns void language sql as $$ delete from inside $$;
    do $$ begin truncate jobs; end $$;`;
  expect(readLocks(text)).toEqual({
    creates: ["made"],
    locks: expect.arrayContaining([
      { table: "links", blocks: "all" },
      { table: "events", blocks: "rows" },
      { table: "jobs", blocks: "all" },
    ]),
  });
  expect(readLocks(text).locks).toHaveLength(3);
  expect(readLocks("create index a on links (b);").locks).toEqual([{ table: "links", blocks: "writes" }]);
  const between =
    "do $$ begin delete from a; end $$; alter table b drop c; create function d() returns int as $$ delete from e $$;";
  expect(readLocks(between).locks).toEqual([
    { table: "b", blocks: "all" },
    { table: "a", blocks: "rows" },
  ]);
});

test("error: a newer version's database is refused by migrate and unchanged, and a process still accepts it", async () => {
  try {
    await sql`insert into migrations (name, sha256) values ('9999_of_a_newer_version.sql', 'x')`;
    const inspected = await inspectDatabase(sql, db.url);
    expect(inspected.refusal).toBeUndefined();
    const { code, errors } = await runMigrate(db.url);
    expect(code).toBe(1);
    expect(errors).toContain(
      "not migrated: the database was migrated by a newer version (it has 9999_of_a_newer_version.sql)",
    );
    expect(errors).toContain("restore a backup from before it");
    await sql`delete from migrations where name = '9999_of_a_newer_version.sql'`;
    expect(await runMigrate(db.url)).toMatchObject({ code: 0, output: "schema is up to date\n" });
  } finally {
    await sql`delete from migrations where name = '9999_of_a_newer_version.sql'`;
  }
}, 120_000);
