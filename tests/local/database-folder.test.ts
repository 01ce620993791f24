/** A data folder of a version before the baseline schema: its database is kept, a new one starts beside it. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chooseDatabaseFolder } from "../../local/postgres/database-folder.ts";

let dataDir: string;
beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), "database-folder-"));
});
afterEach(() => rmSync(dataDir, { recursive: true, force: true }));

test("an empty data folder: a database, and no message", () => {
  expect(chooseDatabaseFolder(dataDir)).toEqual({ folder: join(dataDir, "database"), notice: undefined });
});

test("next to the database of an earlier version: a new folder and one sentence that names both, once", () => {
  mkdirSync(join(dataDir, "postgres"));
  writeFileSync(join(dataDir, "postgres", "password"), "kept");
  const { folder, notice } = chooseDatabaseFolder(dataDir);
  expect(folder).toBe(join(dataDir, "database"));
  expect(notice).toBe(
    `The database in ${join(dataDir, "postgres")} is of an earlier version and can't be upgraded: ` +
      `a new one starts in ${join(dataDir, "database")}, the old one is kept.`,
  );
  mkdirSync(folder);
  expect(chooseDatabaseFolder(dataDir).notice).toBeUndefined();
  expect(readFileSync(join(dataDir, "postgres", "password"), "utf8")).toBe("kept");
});
