/** When the last backup was taken is in the database, for metrics and the operator's page. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { readdirSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import { Registry } from "prom-client";
import { findLastBackup, recordBackup } from "../../db/backup/last-backup.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { listBackups } from "../../ops/backup/write-backup.ts";
import { openWaitingMetrics } from "../../worker/jobs/waiting-metrics.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { makeDatabaseFolder } from "../support/postgres-server.ts";
import { waitFor } from "../support/relay-lab.ts";

const PROGRAM = join(import.meta.dir, "../../ops/backup-main.ts");
const folder = makeDatabaseFolder("test-last-backup-");
let db: TestDatabase;
let sql: Sql;
beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 1 });
});
beforeEach(async () => {
  await sql`delete from last_backup`;
});
afterAll(async () => {
  await sql?.end();
  await db?.drop();
  rmSync(folder, { recursive: true, force: true });
});

function startBackup() {
  return Bun.spawn([process.execPath, "--no-env-file", PROGRAM, "--folder", folder], {
    env: { DATABASE_URL: db.url, BACKUP_KEY: randomBytes(32).toString("hex") },
    ...({ stdout: "pipe", stderr: "pipe" } as const),
  });
}

async function backUp(child = startBackup()) {
  const [output, errors] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  return { code: await child.exited, output, errors };
}

test("a backup is recorded with the time in its file's name", async () => {
  expect(await findLastBackup(sql)).toBeUndefined();
  expect(await backUp()).toMatchObject({ code: 0, errors: "" });
  const last = await findLastBackup(sql);
  expect(last?.ageS).toBeWithin(0, 60);
  const name = `payments-${last?.takenAt.toISOString().replace(/[:.]/g, "-")}.backup`;
  expect(listBackups(folder).map((file) => basename(file))).toContain(name);
});

test("the metric has no value before the first backup, nor while the database does not answer", async () => {
  const registry = new Registry();
  const pool = openDatabase(db.url, { name: "test", maxConnections: 1 });
  openWaitingMetrics(registry, pool);
  const values = async () => {
    const lines = (await registry.metrics()).split("\n");
    const names = ["database_last_backup_timestamp_seconds", "wallet_senders_paused"];
    return lines.filter((line) => names.some((name) => line.startsWith(name)));
  };
  const before = await values();
  await recordBackup(sql, new Date(1_700_000_000_000));
  const after = await values();
  await pool.end();
  expect([before, after, await values()]).toEqual([
    ["wallet_senders_paused 0"],
    ["wallet_senders_paused 0", "database_last_backup_timestamp_seconds 1700000000"],
    [],
  ]);
});

test("the backup that finished last counts, even after one from a machine whose clock was ahead", async () => {
  await recordBackup(sql, new Date(Date.now() + 86_400_000));
  const takenAt = new Date();
  await recordBackup(sql, takenAt);
  expect((await findLastBackup(sql))?.takenAt).toEqual(takenAt);
});

test("a database that cannot store the record, because it is not upgraded yet, is still backed up", async () => {
  await sql`alter table last_backup rename to last_backup_away`;
  const { code, output, errors } = await backUp();
  await sql`alter table last_backup_away rename to last_backup`;
  expect([code, output.includes("read back and complete")]).toEqual([0, true]);
  expect(errors).toContain("no alert watches it");
});

test("error: a backup interrupted while it is written exits with an error, and leaves no file", async () => {
  const before = readdirSync(folder);
  await sql.begin(async (tx) => {
    // the draft is there, and waits for this table
    await tx`lock table webhook_endpoints in access exclusive mode`;
    const child = startBackup();
    await waitFor("a draft", async () => readdirSync(folder).some((name) => name.endsWith(".new")));
    child.kill("SIGTERM");
    expect(await backUp(child)).toEqual({
      code: 143,
      output: "",
      errors: "the backup was interrupted (SIGTERM)\n",
    });
  });
  expect(readdirSync(folder)).toEqual(before);
  expect(await findLastBackup(sql)).toBeUndefined();
});
