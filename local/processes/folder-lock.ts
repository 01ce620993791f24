/** One owner per folder. A kernel lock, so it is released however its owner ends. */
import { Database } from "bun:sqlite";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export type FolderLock = { release: () => void };

/** A lock that nothing refers to would be collected, and released with it. */
const held = new Set<Database>();

/** Locks the folder (created when missing), or throws a message with the owner's process id. */
export function lockFolder(folder: string): FolderLock {
  mkdirSync(folder, { recursive: true });
  const ownerFile = join(folder, "owner");
  const lock = new Database(join(folder, "lock"), { create: true });
  try {
    lock.run("begin exclusive");
  } catch (cause) {
    lock.close();
    throw new Error(
      `${folder} is in use by ${readOwner(ownerFile)}. Stop it first, or choose another folder.`,
      {
        cause,
      },
    );
  }
  writeFileSync(ownerFile, String(process.pid));
  held.add(lock);
  return {
    release: () => {
      held.delete(lock);
      lock.run("rollback");
      lock.close();
    },
  };
}

function readOwner(ownerFile: string): string {
  try {
    return `process ${readFileSync(ownerFile, "utf8")}`;
  } catch {
    return "another process";
  }
}
