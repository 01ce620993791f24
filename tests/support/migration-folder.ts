/** A folder with the migrations of this version and further ones, for `migrate`. */
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export type MigrationFolder = { path: string; remove: () => void };

/** `files`: names and texts. */
export function makeMigrationFolder(files: Record<string, string>): MigrationFolder {
  const path = mkdtempSync(join(tmpdir(), "migrations-"));
  cpSync(join(import.meta.dir, "../../db/migrations"), path, { recursive: true });
  for (const [name, text] of Object.entries(files)) writeFileSync(join(path, name), text);
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}
