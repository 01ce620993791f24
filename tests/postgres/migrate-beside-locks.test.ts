/** `migrate` beside transactions that hold what it needs: a backup, a long read. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { migrate } from "../../db/postgres/migrate.ts";
import { type MigrationFolder, makeMigrationFolder } from "../support/migration-folder.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";

const WAIT_MS = 60_000;
const PENDING = "9001_further_columns.sql";
const TABLES = ["payments", "merchant_books", "documents"];
let folder: MigrationFolder;
let db: TestDatabase;
let sql: Sql;
let holder: Sql;

beforeAll(async () => {
  const text = TABLES.map((table) => `alter table ${table} add column further text;`).join("\n");
  folder = makeMigrationFolder({ [PENDING]: text });
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 2 });
  holder = openDatabase(db.url, { name: "holder", maxConnections: 1 });
}, 120_000);

afterAll(async () => {
  await holder?.end({ timeout: 5 });
  await sql?.end({ timeout: 5 });
  await db?.drop();
  folder?.remove();
});

async function until(isTrue: () => Promise<boolean> | boolean): Promise<void> {
  const deadline = Date.now() + WAIT_MS;
  while (!(await isTrue())) {
    if (Date.now() > deadline) throw new Error("the condition did not become true in time");
    await Bun.sleep(20);
  }
}

/** Runs `work` while another transaction holds `lock`, and then the migration that waited for it. */
async function whileHeld(
  lock: { table: string; mode: string },
  work: (told: string[]) => Promise<void>,
): Promise<void> {
  const [held, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const holding = holder.begin(async (tx) => {
    await tx`set local idle_in_transaction_session_timeout = 0`;
    await tx.unsafe(`lock table ${lock.table} in ${lock.mode} mode`);
    held.resolve();
    await released.promise;
  });
  await held.promise;
  const told: string[] = [];
  const migrating = migrate(db.url, { folder: folder.path, onWait: (line) => told.push(line) });
  try {
    await work(told);
  } finally {
    released.resolve();
    await holding;
  }
  expect(await migrating).toEqual([PENDING]);
}

/** The next one begins where this one did. */
async function undo(): Promise<void> {
  await sql.begin(async (tx) => {
    await tx`delete from migrations where name = ${PENDING}`;
    for (const table of TABLES) await tx`alter table ${tx(table)} drop column further`;
  });
}

test("a migration that waits for a backup locks no table, and is applied when the backup ends", async () => {
  await whileHeld({ table: "migrations", mode: "share" }, async (told) => {
    await until(async () => {
      const rows = await sql`
        select from pg_stat_activity
        where datname = current_database() and application_name = 'migrate' and wait_event_type = 'Lock'`;
      return rows.length > 0;
    });
    const locked = await sql<{ name: string }[]>`
      select distinct pg_class.relname as name
      from pg_locks held
      join pg_stat_activity activity on activity.pid = held.pid
      join pg_class on pg_class.oid = held.relation
      where activity.datname = current_database() and activity.application_name = 'migrate' and held.granted
        and pg_class.relname = any(${TABLES}::text[])`;
    expect(locked.map(({ name }) => name)).toEqual([]);
    await until(() => told.length > 0);
    expect(told[0]).toMatch(
      /^9001_further_columns\.sql is waiting for holder \(pid \d+, since \d\d:\d\d:\d\d UTC\)$/,
    );
  });
  await undo();
});

test("a migration releases a table that a long read holds, and takes it when the read ends", async () => {
  await whileHeld({ table: "payments", mode: "access share" }, async (told) => {
    await until(() => told.length > 0);
    expect(told[0]).toContain("is waiting for holder (pid ");
    // answered between two attempts, which would otherwise stand before it in the queue for the lock
    expect(await sql`select from payments`).toHaveLength(0);
  });
  await undo();
});
