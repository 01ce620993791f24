/** One owner per folder. A kernel lock, so it is released however its owner ends. */
import { Database } from "bun:sqlite";
import { mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export type FolderLock = {
  release: () => void;
  /** False once the folder was removed, even if another process has created and locked it again: nothing may be written into it then. */
  isInPlace: () => boolean;
};

/** Without a reference a lock would be garbage-collected, which releases it. */
const held = new Set<Database>();

/** Locks the folder (created when missing), or throws a message with the owner's process id. */
export function lockFolder(folder: string): FolderLock {
  mkdirSync(folder, { recursive: true });
  const ownerFile = join(folder, "owner");
  const lockFile = join(folder, "lock");
  const lock = new Database(lockFile, { create: true });
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
  const { ino } = statSync(lockFile);
  return {
    isInPlace: () => statSync(lockFile, { throwIfNoEntry: false })?.ino === ino,
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
