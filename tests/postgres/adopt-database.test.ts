/** Databases and backups of the version before the baseline: adopted when they have all that it replaces, else refused and left alone. */
import { afterEach, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { readFileSync, rmSync } from "node:fs";
import { newUserId } from "../../core/domain/ids.ts";
import { BASELINE } from "../../db/postgres/baseline.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { inspectDatabase } from "../../db/postgres/inspect-database.ts";
import { compareSchema, migrate } from "../../db/postgres/migrate.ts";
import { describePlanned, planMigration } from "../../db/postgres/plan-migration.ts";
import { restoreBackup } from "../../ops/backup/restore-backup.ts";
import { writeBackup } from "../../ops/backup/write-backup.ts";
import { dumpSchema, SCHEMA_DUMP } from "../support/dump-schema.ts";
import { createEmptyDatabase, type TestDatabase } from "../support/postgres.ts";
import { makeDatabaseFolder } from "../support/postgres-server.ts";
import { createReplacedDatabase, REPLACED } from "../support/replaced-migrations.ts";
import { seedLink, seedMerchant } from "../support/seed.ts";

const USERS = 3;
/** What comes after it is still in db/migrations. */
const LAST_WITHOUT_A_FILE = "0155_numbered_transactions.sql";
const AFTER_BASELINE = [
  ...["0160_zstd_chunks.sql", "0161_refunds_paid.sql", "0162_export_run_ends.sql"],
  ...["0163_orphaned_places.sql", "0164_orphaned_place_indexes.sql", "0165_last_backup.sql"],
  ...["0166_deferrable_assignment_links.sql", "0167_orphaned_payers.sql", "0168_unverified_users.sql"],
  ...["0169_signature_refusals.sql"],
  ...["0170_counts_of_no_change.sql", "0171_deleted_endpoints.sql", "0172_document_lists.sql"],
  "0173_former_relays.sql",
  ...["0174_place_ranks.sql", "0175_exceptions_of_uses.sql", "0176_heights_of_payments.sql"],
  ...["0177_unexecuted_operations.sql"],
];
const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

type Opened = { url: string; sql: Sql };

async function open(creating: Promise<TestDatabase>): Promise<Opened> {
  const db = await creating;
  const sql = openDatabase(db.url, { name: "test", maxConnections: 2 });
  ends.push(db.drop, () => sql.end({ timeout: 5 }));
  return { url: db.url, sql };
}

/** With users, of whom every version knows these columns. */
async function openReplaced(names?: readonly string[]): Promise<Opened> {
  const opened = await open(createReplacedDatabase(names));
  for (let count = 0; count < USERS; count++) {
    const id = newUserId();
    await opened.sql`insert into users (id, email) values (${id}, ${`${id}@example.com`})`;
  }
  return opened;
}

const readUsers = (sql: Sql) => sql`select id, email, created_at, updated_at from users order by id`;
/** With what any write of a row changes. */
const readRows = (sql: Sql) => sql`select id, xmin::text, ctid::text from users order by id`;
const readMigrations = (sql: Sql) => sql<{ name: string; sha256: string }[]>`
  select name, sha256 from migrations order by name`;

async function expectRefused({ url, sql }: Opened, message: string): Promise<void> {
  const before = [await dumpSchema(sql), [...(await readMigrations(sql))], [...(await readRows(sql))]];
  await expect(migrate(url)).rejects.toThrow(message);
  await expect(planMigration(sql)).rejects.toThrow(message);
  expect([await dumpSchema(sql), [...(await readMigrations(sql))], [...(await readRows(sql))]]).toEqual(
    before,
  );
}

test("a database with everything that the baseline replaces gets its name, once, and its rows are unchanged", async () => {
  const { url, sql } = await openReplaced();
  const rows = [...(await readRows(sql))];
  expect(rows).toHaveLength(USERS);
  expect((await inspectDatabase(sql, url)).refusal).toContain(
    `migration(s) of this version (${BASELINE}): run`,
  );
  const [first, ...others] = await planMigration(sql);
  expect(first && describePlanned(first)).toEqual([BASELINE, "  blocks nothing"]);

  const adopted = (await Promise.all([migrate(url, { only: [] }), migrate(url, { only: [] })])).flat();
  expect(adopted).toEqual([BASELINE]);
  expect([...(await readRows(sql))]).toEqual(rows);

  expect(await migrate(url)).toEqual(others.map(({ name }) => name));
  expect(await dumpSchema(sql)).toBe(readFileSync(SCHEMA_DUMP, "utf8"));
  expect(await compareSchema(sql)).toEqual({ pending: [], unknown: [] });
  expect((await inspectDatabase(sql, url)).refusal).toBeUndefined();

  const after = [...(await readMigrations(sql))];
  expect(await migrate(url)).toEqual([]);
  expect([...(await readMigrations(sql))]).toEqual(after);
}, 120_000);

/** Undoes what came after LAST_WITHOUT_A_FILE. */
const BEFORE_BYTES = `
  drop function pending_of(uuid), unwritten_of(uuid);
  drop view transactions_to_count, pending_transactions, unwritten_transactions;
  drop function user_of(uuid);
  alter table transactions drop column owner, add column user_id text not null;
  alter table transactions add column owner uuid not null generated always as (owner_key(user_id)) stored;
  create view unwritten_transactions as select;
  create view pending_transactions as select;
  create view transactions_to_count as select;
  create function unwritten_of(uuid) returns int language sql return 0;
  create function pending_of(uuid) returns int language sql return 0;

  alter table payments add column request_id text;
  drop table payment_requests;

  alter table pay_amounts drop constraint pay_amounts_wallet_fkey;
  alter table payment_links drop constraint payment_links_wallet_fkey, drop constraint payment_links_lengths_check;
  drop index payment_links_fitting, payment_links_unique_amount;
  alter table wallets drop constraint wallets_address_check, alter column address type text using hex_of(address);
  alter table wallets add constraint wallets_address_check check (address ~ '^0x[0-9a-f]{40}$');
  alter table pay_amounts alter column recipient type text using hex_of(recipient);
  alter table payment_links
    alter column recipient type text using hex_of(recipient),
    alter column tag type text using hex_of(tag),
    add constraint payment_links_recipient_check check (length(recipient) = 42),
    add constraint payment_links_tag_check check (length(tag) = 34);
  create function address_key(address text) returns bigint
    language sql immutable parallel safe
    return address_key(bytes_of(address));
  alter table pay_amounts add constraint pay_amounts_wallet_fkey
    foreign key (network, recipient) references wallets (network, address) on delete cascade;
  alter table payment_links add constraint payment_links_wallet_fkey
    foreign key (network, recipient) references wallets (network, address) on delete cascade;
  create index payment_links_fitting on payment_links (address_key(recipient), amount_units, expires_at);
  create index payment_links_unique_amount on payment_links (address_key(recipient), pay_amount_units);

  drop index documents_link_moment, documents_transfer_digest_key;
  drop function link_moment(text);
  alter table documents
    drop constraint documents_lengths_check,
    alter column tx_hash type text using hex_of(tx_hash),
    alter column block_hash type text using hex_of(block_hash);
  alter table documents
    add constraint documents_tx_hash_check check (length(tx_hash) = 66),
    add constraint documents_block_hash_check check (length(block_hash) = 66);
  create index documents_link on documents (link_id);
  create unique index documents_transfer_digest_key
    on documents (log_digest(network, bytes_of(tx_hash), log_index), kind) where voided_at is null`;

test("a database that lacks the last replaced migrations gets those first, keeps its rows, and is adopted", async () => {
  const { url, sql } = await open(createReplacedDatabase());
  const merchant = await seedMerchant(sql);
  const linkId = await seedLink(sql, merchant, { amountUnits: 2_500_000n });
  const readLink = () => sql`select id, recipient, tag, amount_units, user_id from payment_links`;
  const readWallet = () => sql`select id, address, user_id from wallets`;
  const before = [...(await readLink()), ...(await readWallet())];
  expect(before).toMatchObject([{ id: linkId, recipient: merchant.address }, { address: merchant.address }]);

  const left = REPLACED.slice(REPLACED.indexOf(LAST_WITHOUT_A_FILE) + 1);
  const ofOwner = await sql<{ indexdef: string }[]>`
    select indexdef from pg_indexes where tablename = 'transactions' and indexdef like '%owner%'`;
  await sql.unsafe(BEFORE_BYTES);
  for (const { indexdef } of ofOwner) await sql.unsafe(indexdef);
  await sql`delete from migrations where name = any(${left}::text[])`;
  expect((await compareSchema(sql)).pending).toEqual([...left, BASELINE, ...AFTER_BASELINE]);
  const plan = await planMigration(sql);
  expect(plan.map(({ name }) => name)).toEqual([...left, BASELINE, ...AFTER_BASELINE]);
  const stopping = plan.filter(
    (one) => describePlanned(one)[1] === "  needs all processes of the service stopped",
  );
  expect(stopping.map(({ name }) => name)).toEqual([...left, "0160_zstd_chunks.sql"]);

  // the version before cannot run beside them
  const old = await dumpSchema(sql);
  await sql`
    insert into processes (id, kind, version, host, pid, seen_at)
    values (gen_random_uuid(), 'worker', '0.1.0', 'shop', 4711, now() - interval '15 seconds')`;
  await expect(migrate(url)).rejects.toThrow(
    "0156_document_bytes.sql needs all processes of the service stopped, and worker (shop, pid 4711) reported within the last 30 s",
  );
  expect(await dumpSchema(sql)).toBe(old);
  await sql`update processes set seen_at = now() - interval '31 seconds'`;

  expect(await migrate(url)).toEqual([...left, BASELINE, ...AFTER_BASELINE]);
  expect([...(await readLink()), ...(await readWallet())]).toEqual(before);
  expect(withoutNotValid(await dumpSchema(sql))).toBe(readFileSync(SCHEMA_DUMP, "utf8"));
  expect(await compareSchema(sql)).toEqual({ pending: [], unknown: [] });
  expect(await migrate(url)).toEqual([]);
}, 120_000);

/** A new database needs none. */
function withoutNotValid(dump: string): string {
  return dump.replaceAll(" NOT VALID", "");
}

test("a new database gets the baseline and what came after it, and nothing that it replaces", async () => {
  const { url, sql } = await open(createEmptyDatabase());
  const applied = await migrate(url);
  expect(applied).toEqual([BASELINE, ...AFTER_BASELINE]);
  expect(applied.filter((name) => REPLACED.includes(name))).toEqual([]);
  expect(await compareSchema(sql)).toEqual({ pending: [], unknown: [] });
  expect(await migrate(url)).toEqual([]);
}, 120_000);

test("an adopted database keeps the names that processes of the previous version look for, and the baseline's text", async () => {
  const [adopted, made] = [await openReplaced(), await open(createEmptyDatabase())];
  await migrate(adopted.url);
  await migrate(made.url);
  const names = (await readMigrations(adopted.sql)).map(({ name }) => name);
  expect(REPLACED.filter((name) => !names.includes(name))).toEqual([]);
  const ofBaseline = async ({ sql }: Opened) =>
    (await readMigrations(sql)).filter(({ name }) => name === BASELINE);
  expect(await ofBaseline(adopted)).toEqual(await ofBaseline(made));
}, 120_000);

test("error: a database partway through the replaced migrations is refused unchanged, with what to do first", async () => {
  const middle = await openReplaced(REPLACED.slice(0, 30));
  await expectRefused(
    middle,
    `the database is of an earlier version (its last migration is ${REPLACED[29]}), and this version needs every migration ` +
      "below 0156: first run `bun run migrate` of a version that has them, or set DATABASE_URL to an empty database",
  );
  expect((await inspectDatabase(middle.sql, middle.url)).refusal).toContain("run `bun run migrate` first");
}, 120_000);

test("error: only one of its migrations is missing, the first, the last or one in between", async () => {
  const missing = [1, 30, REPLACED.indexOf(LAST_WITHOUT_A_FILE)];
  for (const index of missing)
    await expectRefused(
      await openReplaced(REPLACED.toSpliced(index, 1)),
      "is of an earlier version (its last",
    );
  await expectRefused(
    await openReplaced(REPLACED.slice(0, 1)),
    "is of an earlier version (it has no migrations after its baseline)",
  );
}, 120_000);

test("error: a migration name that never existed, and one of a newer version", async () => {
  await expectRefused(await openReplaced([...REPLACED, "0103_unknown.sql"]), "is of an earlier version");
  await expectRefused(
    await openReplaced(["0100_baseline", "0101_after_another_baseline.sql"]),
    "(its last migration is 0101_after_another_baseline.sql), and this version needs every migration below",
  );
  const newer = await openReplaced([...REPLACED, "9999_newer.sql"]);
  await expect(migrate(newer.url)).rejects.toThrow("migrated by a newer version (it has 9999_newer.sql)");
  expect((await readMigrations(newer.sql)).map(({ name }) => name)).not.toContain(BASELINE);
}, 120_000);

test("error: a database without any baseline has no upgrade path", async () => {
  const { url, sql } = await open(createEmptyDatabase());
  await sql.unsafe("create table migrations (name text primary key, sha256 text not null)");
  await sql`insert into migrations values ('0001_accounts.sql', 'a'), ('0058_event_completeness.sql', 'b')`;
  await expect(migrate(url)).rejects.toThrow(
    "(its last migration is 0058_event_completeness.sql) and can't be upgraded: set DATABASE_URL to an empty database and keep this one",
  );
  const tables = await sql`
    select from pg_class
    where relkind = 'r' and relnamespace not in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)`;
  expect(tables).toHaveLength(1);
});

test("a backup from before the baseline is restored if it has all replaced migrations, else refused", async () => {
  const keys = [randomBytes(32).toString("hex")] as const;
  const folder = makeDatabaseFolder("test-backup-");
  ends.push(async () => rmSync(folder, { recursive: true, force: true }));
  const write = async (names: readonly string[], part: string) => {
    const { sql } = await openReplaced(names);
    return {
      rows: [...(await readUsers(sql))],
      backup: await writeBackup(sql, { folder: `${folder}/${part}`, keys, keep: 1, now: new Date() }),
    };
  };
  const [whole, middle] = [await write(REPLACED, "whole"), await write(REPLACED.slice(0, 30), "middle")];

  const target = await open(createEmptyDatabase());
  await expect(restoreBackup(target.url, { file: middle.backup.file, keys })).rejects.toThrow(
    `the backup is of an earlier version (its last migration is ${REPLACED[29]})`,
  );
  await restoreBackup(target.url, { file: whole.backup.file, keys });
  expect([...(await readUsers(target.sql))]).toEqual(whole.rows);
  expect(await compareSchema(target.sql)).toEqual({ pending: [], unknown: [] });
}, 120_000);
