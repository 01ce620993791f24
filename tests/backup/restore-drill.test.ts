/** A backup of the running service, restored beside a chain that has moved on, agrees with the books that were given up. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { existsSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { RECORD } from "../../db/backup/dump.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { restoreBackup } from "../../ops/backup/restore-backup.ts";
import { type Backup, listBackups, openBackup, writeBackup } from "../../ops/backup/write-backup.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { makeDatabaseFolder } from "../support/postgres-server.ts";
import { waitFor } from "../support/relay-lab.ts";
import { seedLinks, seedMerchant } from "../support/seed.ts";
import { type DrillReport, runRestoreDrill } from "./restore-drill.ts";

describe("restoring while the chain has moved on", () => {
  let report: DrillReport;
  beforeAll(async () => {
    report = await runRestoreDrill();
  }, 240_000);

  test("the ledger of every link in the backup is correct, including links paid after it", () => {
    expect(report.differences).toEqual([]);
    expect(report.links).toBe(2 * report.paid.before + 1);
    expect(report.transfers).toBe(report.paid.before + report.paid.after + report.paid.newer);
  });

  test("the restored service accepts no second payment for a paid link, and one for an open link", () => {
    expect(report.refusedOnRestored).toBe(409);
    expect(report.paidOnRestored).toBe(true);
  });

  test("the commands report what they did", () => {
    expect(report.output).toMatch(/\.backup: \d\d tables, \d+\.\d MB, read back and complete/);
    expect(report.output).toMatch(/restored \d\d tables as of \d{4}-/);
  });
});

test("an unknown option of backup prints the usage, not a stack trace", () => {
  const program = join(import.meta.dir, "../../ops/backup-main.ts");
  const { exitCode, stderr } = Bun.spawnSync([process.execPath, program, "--help"], { stderr: "pipe" });
  expect(exitCode).toBe(64);
  expect(stderr.toString()).toBe(
    "bun run backup [--folder FOLDER] [--keep COUNT] [--every 30m|6h|1d, at most 24d]\n",
  );
});

/** Their ids and addresses take more than one of the file's encrypted chunks of 64 KiB. */
const LINKS = 3_000;

describe("a backup's file", () => {
  const keys = [randomBytes(32).toString("hex")] as const;
  const folder = makeDatabaseFolder("test-backup-");
  let db: TestDatabase;
  let sql: Sql;
  let backup: Backup;
  const at = (minute: number) => new Date(Date.UTC(2026, 0, 1, 0, minute));

  beforeAll(async () => {
    db = await createTestDatabase();
    sql = openDatabase(db.url, { name: "test", maxConnections: 2 });
    await seedLinks(sql, await seedMerchant(sql), { count: LINKS });
    backup = await writeBackup(sql, { folder, keys, keep: 2, now: at(0) });
  }, 120_000);
  afterAll(async () => {
    await sql?.end({ timeout: 5 });
    await db?.drop();
    rmSync(folder, { recursive: true, force: true });
  });

  test("a backup that begins during a migration waits for it, and contains the rows of a table it rewrites", async () => {
    const other = await createTestDatabase();
    const shared = openDatabase(other.url, { name: "test", maxConnections: 3 });
    await seedLinks(shared, await seedMerchant(shared), { count: 5 });
    const rewritten = Promise.withResolvers<void>();
    const go = Promise.withResolvers<void>();
    const migration = shared.begin(async (tx) => {
      await tx`alter table payment_links alter column success_url type varchar(9000)`;
      await tx`insert into migrations (name, sha256) values ('9999_test.sql', 'x')`;
      rewritten.resolve();
      await go.promise;
    });
    await rewritten.promise;
    const writing = writeBackup(shared, { folder: `${folder}/beside`, keys, keep: 1, now: at(9) });
    await waitFor("the backup to wait", async () => {
      const rows = await shared`
        select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
      return rows.length > 0;
    });
    go.resolve();
    await migration;
    const { file } = await writing;
    let rows = 0;
    let isLinks = false;
    for await (const { kind, content } of openBackup(file, keys)) {
      if (kind === RECORD.table) isLinks = JSON.parse(content.toString()).name.includes("payment_links");
      else if (kind === RECORD.rows && isLinks) rows += content.toString().split("\n").length - 1;
    }
    expect(rows).toBe(5);
    await shared.end({ timeout: 5 });
    await other.drop();
  }, 120_000);

  /** A database of its own, restored from `file`; its rows of every table as text. */
  async function restoreInto(file: string, used: readonly [string, ...string[]] = keys) {
    const name = `${db.name}_${randomBytes(4).toString("hex")}`;
    const url = new URL(db.url);
    url.pathname = `/${name}`;
    await sql`create database ${sql(name)}`;
    try {
      const restored = await restoreBackup(url.href, { file, keys: used });
      const other = openDatabase(url.href, { name: "test", maxConnections: 1 });
      const rows = await readAll(other);
      await other.end({ timeout: 5 });
      return { restored, rows, again: await restoreBackup(url.href, { file, keys: used }).catch(String) };
    } finally {
      await sql`drop database ${sql(name)} with (force)`;
    }
  }

  async function readAll(from: Sql): Promise<Record<string, string[]>> {
    const tables = await from<{ name: string }[]>`
      select table_name as name from information_schema.tables
      where table_schema = 'public' and table_type = 'BASE TABLE'
        and table_name not in ('migrations', 'event_epochs') order by 1`;
    const found: Record<string, string[]> = {};
    for (const { name } of tables) {
      const rows = await from<{ row: string }[]>`select t::text as row from ${from(name)} t order by 1`;
      found[name] = rows.map(({ row }) => row);
    }
    return found;
  }

  test("every row of every table comes back, and generated columns are the same", async () => {
    const { restored, rows, again } = await restoreInto(backup.file);
    const before = await readAll(sql);
    expect(restored.tables).toBe(backup.tables);
    expect(rows).toEqual(before);
    expect(rows.payment_links).toHaveLength(LINKS);
    expect(again).toContain("the database is not empty");
    expect(statSync(backup.file).mode & 0o777).toBe(0o600);
  }, 120_000);

  test("error: a file with a changed byte, a truncated file and a wrong key restore nothing", async () => {
    const bytes = readFileSync(backup.file);
    const broken = join(folder, "broken");
    for (const wrong of [
      Buffer.concat([bytes.subarray(0, -1), Buffer.from([(bytes.at(-1) ?? 0) ^ 1])]),
      bytes.subarray(0, bytes.length - 20),
    ]) {
      writeFileSync(broken, wrong);
      await expect(restoreInto(broken)).rejects.toThrow(/altered|incomplete/);
    }
    await expect(restoreInto(backup.file, [randomBytes(32).toString("hex")])).rejects.toThrow(
      "no key in BACKUP_KEY",
    );
  }, 120_000);

  test("a broken file leaves an empty database empty, so that an intact one can be restored next", async () => {
    const name = `${db.name}_empty`;
    const url = new URL(db.url);
    url.pathname = `/${name}`;
    await sql`create database ${sql(name)}`;
    try {
      const broken = join(folder, "broken");
      expect(backup.bytes).toBeGreaterThan(64 * 1024);
      writeFileSync(broken, readFileSync(backup.file).subarray(0, -20));
      await expect(restoreBackup(url.href, { file: broken, keys })).rejects.toThrow(/altered|incomplete/);
      const restored = await restoreBackup(url.href, { file: backup.file, keys });
      expect(restored.tables).toBe(backup.tables);
    } finally {
      await sql`drop database ${sql(name)} with (force)`;
    }
  }, 120_000);

  /** An empty database beside the backed-up one, dropped when `work` is over. */
  async function withEmpty(work: (url: string) => Promise<void>): Promise<void> {
    const name = `${db.name}_${randomBytes(4).toString("hex")}`;
    await sql`create database ${sql(name)}`;
    try {
      await work(Object.assign(new URL(db.url), { pathname: `/${name}` }).href);
    } finally {
      await sql`drop database ${sql(name)} with (force)`;
    }
  }

  test(
    "statistics are gathered even when that takes longer than the statement timeout",
    () =>
      withEmpty(async (url) => {
        const other = openDatabase(url, { name: "test", maxConnections: 2 });
        const restoring = restoreBackup(url, { file: backup.file, keys });
        await waitFor("the restore to fill the table", async () => {
          // not one of the migrations before it, which lock the table too
          const rows = await other`
            select from pg_locks
            join pg_stat_activity using (pid)
            where relation = to_regclass('payment_links') and granted
              and application_name = 'restore' and mode = 'ShareRowExclusiveLock'`;
          return rows.length > 0;
        });
        // granted when the rows are committed; held until the restore is over
        const holding = Promise.withResolvers<void>();
        const held = other.begin(async (tx) => {
          await tx`set local statement_timeout = 0`;
          await tx`set local idle_in_transaction_session_timeout = 0`;
          await tx`lock table payment_links in share update exclusive mode`;
          await holding.promise;
        });
        try {
          expect((await restoring).tables).toBe(backup.tables);
        } finally {
          holding.resolve();
          await held;
        }
        const [row] =
          await other`select reltuples::int as rows from pg_class where relname = 'payment_links'`;
        expect(row).toEqual({ rows: LINKS });
        await other.end({ timeout: 5 });
      }),
    120_000,
  );

  test(
    "error: a restored backup that cannot be migrated is reported as restored, with the failure",
    () =>
      withEmpty(async (url) => {
        const earlier = await createTestDatabase();
        const old = openDatabase(earlier.url, { name: "test", maxConnections: 2 });
        await old`delete from migrations where name = '0172_document_lists.sql'`;
        const { file, tables } = await writeBackup(old, { folder, keys, keep: 9, now: at(20) });
        const target = openDatabase(url, { name: "test", maxConnections: 1 });
        await target`create sequence documents_void`;
        const program = join(import.meta.dir, "../../ops/restore-main.ts");
        const { exitCode, stderr } = Bun.spawnSync([process.execPath, "--no-env-file", program, file], {
          ...({ env: { DATABASE_URL: url, BACKUP_KEY: keys[0] }, stderr: "pipe" } as const),
        });
        expect(exitCode).toBe(1);
        expect(stderr.toString()).toStartWith(
          `restored ${tables} tables as of 2026-01-01T00:20:00.000Z, but not migrated: `,
        );
        rmSync(file);
        await Promise.all([old.end({ timeout: 5 }), target.end({ timeout: 5 })]);
        await earlier.drop();
      }),
    120_000,
  );

  test("the remains of a killed backup are removed after a day, but not a backup in progress", async () => {
    const draft = (minute: number) => join(folder, `payments-2026-01-01T00-0${minute}-00-000Z.backup.new`);
    for (const minute of [7, 8]) writeFileSync(draft(minute), "half");
    utimesSync(draft(7), new Date(), new Date(Date.now() - 25 * 3_600_000));
    utimesSync(draft(8), new Date(), new Date(Date.now() - 23 * 3_600_000));
    await writeBackup(sql, { folder, keys, keep: 2, now: at(9) });
    expect([existsSync(draft(7)), existsSync(draft(8))]).toEqual([false, true]);
    rmSync(draft(8));
    for (const file of listBackups(folder).slice(-1)) rmSync(file);
  }, 120_000);

  test("only the newest backups are kept, and other files are not touched", async () => {
    writeFileSync(join(folder, "notes.txt"), "mine");
    for (const minute of [1, 2]) await writeBackup(sql, { folder, keys, keep: 2, now: at(minute) });
    expect(listBackups(folder).map((file) => file.slice(-29))).toEqual([
      expect.stringContaining("00-01-00-000Z"),
      expect.stringContaining("00-02-00-000Z"),
    ]);
    expect(readFileSync(join(folder, "notes.txt"), "utf8")).toBe("mine");
  }, 120_000);
});
