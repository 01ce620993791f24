/** Migrations that build their indexes beside writes. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { readIndexSteps } from "../../db/postgres/apply-migration.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { migrate } from "../../db/postgres/migrate.ts";
import { assertStillLocked, lockMigrations } from "../../db/postgres/migration-lock.ts";
import { type MigrationFolder, makeMigrationFolder } from "../support/migration-folder.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";

const WAIT_MS = 60_000;
/** It replaces one index of payment_links and one of transactions. */
const PENDING = "9001_replaced_indexes.sql";
const TEXT = `
  -- serves: links by their last change
  create index concurrently payment_links_replaced_anew on payment_links (updated_at) where parent_id is null;
  drop index concurrently if exists payment_links_replaced;
  create index concurrently transactions_replaced_anew on transactions (updated_at) where is_settled;
  drop index concurrently if exists transactions_replaced;`;
let folder: MigrationFolder;
let db: TestDatabase;
let sql: Sql;
let holder: Sql;

beforeEach(async () => {
  folder = makeMigrationFolder({ [PENDING]: TEXT });
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 2 });
  holder = openDatabase(db.url, { name: "holder", maxConnections: 1 });
  for (const table of ["payment_links", "transactions"])
    await sql`create index ${sql(`${table}_replaced`)} on ${sql(table)} (updated_at)`;
}, 120_000);

afterEach(async () => {
  await holder?.end({ timeout: 5 });
  await sql?.end({ timeout: 5 });
  await db?.drop();
  folder?.remove();
});

async function until(isTrue: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + WAIT_MS;
  while (!(await isTrue())) {
    if (Date.now() > deadline) throw new Error("the condition did not become true in time");
    await Bun.sleep(20);
  }
}

/** Does `work` while a transaction that has written links is open, and so has to end before an index of them is valid. */
async function besideWriter(work: () => Promise<void>): Promise<void> {
  const [written, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const writing = holder.begin(async (tx) => {
    await tx`set local idle_in_transaction_session_timeout = 0`;
    await tx`update payment_links set updated_at = now()`;
    written.resolve();
    await released.promise;
  });
  await written.promise;
  try {
    await work();
  } finally {
    released.resolve();
    await writing;
  }
}

const apply = () => migrate(db.url, { folder: folder.path });

const buildWaits = () =>
  until(async () => {
    const rows = await sql`
      select from pg_stat_activity
      where datname = current_database() and application_name = 'migrate'
        and wait_event_type = 'Lock' and query like 'create index concurrently%'`;
    return rows.length > 0;
  });

const indexesOf = (table: string) =>
  sql<{ name: string; isValid: boolean }[]>`
    select indexrelid::regclass::text as name, indisvalid as is_valid
    from pg_index
    where indrelid = to_regclass(${table}) and indexrelid::regclass::text ~ 'replaced'
    order by 1`;

async function expectApplied(): Promise<void> {
  expect([...(await indexesOf("payment_links"))]).toEqual([
    { name: "payment_links_replaced_anew", isValid: true },
  ]);
  expect([...(await indexesOf("transactions"))]).toEqual([
    { name: "transactions_replaced_anew", isValid: true },
  ]);
}

test("while an index build waits for a writer to end, others can write to the table", async () => {
  let migrating: Promise<string[]> | undefined;
  await besideWriter(async () => {
    migrating = apply();
    await buildWaits();
    await sql.begin(async (tx) => {
      await tx`set local lock_timeout = '5s'`;
      await tx`lock table payment_links in row exclusive mode`;
    });
    expect((await indexesOf("payment_links")).map(({ name }) => name)).toContain("payment_links_replaced");
  });
  expect(await migrating).toEqual([PENDING]);
  await expectApplied();
}, 120_000);

test("the remains of an interrupted build are dropped and rebuilt", async () => {
  await besideWriter(async () => {
    const cut = apply().catch((error: unknown) => String(error));
    await buildWaits();
    await sql`
      select pg_cancel_backend(pid) from pg_stat_activity
      where datname = current_database() and application_name = 'migrate'`;
    expect(await cut).toContain("canceling statement");
  });
  expect([...(await indexesOf("payment_links"))]).toEqual([
    { name: "payment_links_replaced", isValid: true },
    { name: "payment_links_replaced_anew", isValid: false },
  ]);
  expect(await apply()).toEqual([PENDING]);
  await expectApplied();
}, 120_000);

test("of two concurrent migrations the second waits without blocking the first's index", async () => {
  let both: Promise<string[][]> | undefined;
  await besideWriter(async () => {
    both = Promise.all([apply(), apply()]);
    await buildWaits();
  });
  expect((await both)?.flat()).toEqual([PENDING]);
  await expectApplied();
}, 120_000);

test("a version that waits for the lock in one statement gets it while an index is built", async () => {
  let migrating: Promise<string[]> | undefined;
  await besideWriter(async () => {
    migrating = apply();
    await buildWaits();
    await sql.begin(async (tx) => {
      await tx`set local statement_timeout = '60s'`;
      await tx`select pg_advisory_xact_lock(7041001)`;
    });
  });
  expect(await migrating).toEqual([PENDING]);
  await expectApplied();
}, 120_000);

test("a reopened connection does not record what the previous one has built", async () => {
  await expect(sql.begin((tx) => assertStillLocked(tx))).rejects.toThrow("start the migration again");
  await sql.begin(async (tx) => {
    await lockMigrations(tx as unknown as Sql, () => {});
    await assertStillLocked(tx);
    await tx`select pg_advisory_unlock_all()`;
  });
});

test("a build begins after a running backup, and reports what it waits for", async () => {
  const [held, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const backup = holder.begin(async (tx) => {
    await tx`set local idle_in_transaction_session_timeout = 0`;
    await tx`lock table migrations in share mode`;
    held.resolve();
    await released.promise;
  });
  await held.promise;
  const told: string[] = [];
  const migrating = migrate(db.url, { folder: folder.path, onWait: (line) => told.push(line) });
  try {
    await until(async () => told.length > 0);
    expect(told[0]).toContain(`${PENDING} is waiting for holder (pid `);
    expect((await indexesOf("payment_links")).map(({ name }) => name)).toEqual(["payment_links_replaced"]);
  } finally {
    released.resolve();
    await backup;
  }
  expect(await migrating).toEqual([PENDING]);
}, 120_000);

test("a file of indexes built concurrently contains nothing else", () => {
  expect(
    readIndexSteps("create index concurrently a on b (c); -- d\ndrop index concurrently if exists e;"),
  ).toEqual([
    { statement: "create index concurrently a on b (c)", verb: "create", index: "a" },
    { statement: "drop index concurrently if exists e", verb: "drop", index: "e" },
  ]);
  expect(readIndexSteps("create index a on b (c); alter table b add d int;")).toBeUndefined();
  expect(() => readIndexSteps("create index concurrently a on b (c); alter table b add d int")).toThrow(
    "another statement: alter table b add d int",
  );
});
