/** Backups that a machine wrote while its clock was ahead: their names are later than those of every backup after the correction. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { type Keys, listBackups, writeBackup } from "../../ops/backup/write-backup.ts";
import { createTestDatabase, TEST_POOL, type TestDatabase } from "../support/postgres.ts";

const folder = mkdtempSync(join(tmpdir(), "test-kept-backups-"));
const keys: Keys = [randomBytes(32).toString("hex")];
let db: TestDatabase;
let sql: Sql;

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, TEST_POOL);
}, 60_000);
afterAll(async () => {
  await sql?.end({ timeout: 1 });
  await db?.drop();
  rmSync(folder, { recursive: true, force: true });
});

test("they neither count nor go: the newest ones written since are kept, and the command is told", async () => {
  const ahead = [1, 2, 3].map((day) => join(folder, `payments-2036-01-0${day}T00-00-00-000Z.backup`));
  for (const file of ahead) writeFileSync(file, "");
  const written: string[] = [];
  for (const minute of [1, 2, 3]) {
    const now = new Date(Date.UTC(2026, 0, 1, 0, minute));
    const { file, ahead: count } = await writeBackup(sql, { folder, keys, keep: 2, now });
    expect(count).toBe(3);
    written.push(file);
  }
  expect(listBackups(folder)).toEqual([...written.slice(-2), ...ahead]);
}, 60_000);
