/** Secrets of a developer's machine: generated once, stored in DATA_DIR, readable by their owner only. */
import { randomBytes } from "node:crypto";
import { linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const SECRET_BYTES = 32;

/** The secret of this name (64 hex characters), the same at every start, also for concurrent callers. */
export function ensureSecret(dataDir: string, name: string): string {
  const folder = join(dataDir, "secrets");
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const file = join(folder, name);
  return readSecret(file) ?? makeSecret(file);
}

/** A hard link is atomic and never replaces an existing name. */
function makeSecret(file: string): string {
  const draft = `${file}.${process.pid}.${randomBytes(4).toString("hex")}`;
  writeFileSync(draft, randomBytes(SECRET_BYTES).toString("hex"), { mode: 0o600, flush: true });
  try {
    linkSync(draft, file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  } finally {
    rmSync(draft);
  }
  return readFileSync(file, "utf8");
}

function readSecret(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return undefined;
  }
}
