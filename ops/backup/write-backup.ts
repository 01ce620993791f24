/** Writes one encrypted backup, reads it back, and removes the oldest. The service may run. */
import {
  createReadStream,
  createWriteStream,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip, createGzip } from "node:zlib";
import { dumpDatabase, RECORD } from "../../db/backup/dump.ts";
import { readHeader, readRecords } from "../../db/backup/load.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { openStream, sealStream } from "./seal-stream.ts";

export type Keys = readonly [string, ...string[]];
export type Backup = {
  file: string;
  bytes: number;
  tables: number;
  /** Files of a time when the clock was ahead, which are neither counted nor removed. */
  ahead: number;
};

/** No backup is read back for longer. */
const DRAFT_KEPT_MS = 24 * 3_600_000;
const DRAFT_NAME = /^payments-[\dTZ-]+\.backup\.new$/;
const FILE_NAME = /^payments-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z\.backup$/;

/** The file gets its final name when it is complete and can be read with `keys`. */
export async function writeBackup(
  sql: Sql,
  { folder, keys, keep, now }: { folder: string; keys: Keys; keep: number; now: Date },
): Promise<Backup> {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const file = join(folder, `payments-${now.toISOString().replace(/[:.]/g, "-")}.backup`);
  const draft = `${file}.new`;
  const discard = () => rmSync(draft, { force: true });
  process.once("exit", discard);
  try {
    await sql.begin("isolation level repeatable read read only", async (tx) => {
      // before the snapshot: a table that a migration rewrites after it would be read as empty
      await tx`lock table migrations in share mode`;
      // the snapshot is held for as long as the rows take
      await tx`set local statement_timeout = 0`;
      await tx`set local idle_in_transaction_session_timeout = 0`;
      await pipeline(
        Readable.from(dumpDatabase(tx, now)),
        createGzip({ level: 6 }),
        (plain: AsyncIterable<Uint8Array>) => sealStream(plain, keys[0]),
        createWriteStream(draft, { mode: 0o600, flush: true }),
      );
    });
    const tables = await countTables(draft, keys);
    renameSync(draft, file);
    const ahead = removeOldest(folder, { keep, newest: file });
    removeAbandoned(folder);
    return { file, bytes: statSync(file).size, tables, ahead };
  } finally {
    process.off("exit", discard);
    discard();
  }
}

/** The records of a backup's file. */
export function openBackup(file: string, keys: Keys): AsyncGenerator<{ kind: number; content: Buffer }> {
  const gunzip = createGunzip();
  const opened = Readable.from(openStream(createReadStream(file), keys));
  opened.on("error", (error) => gunzip.destroy(error));
  return readRecords(opened.pipe(gunzip));
}

export function listBackups(folder: string): string[] {
  return readdirSync(folder)
    .filter((name) => FILE_NAME.test(name))
    .sort()
    .map((name) => join(folder, name));
}

/** Reads a backup to its end. Throws when it is not whole. */
export async function countTables(file: string, keys: Keys): Promise<number> {
  let [tables, isWhole] = [0, false];
  const records = openBackup(file, keys);
  readHeader((await records.next()).value);
  for await (const { kind } of records) {
    if (kind === RECORD.table) tables++;
    isWhole = kind === RECORD.end;
  }
  if (!isWhole) throw new Error(`${file} could not be read back`);
  return tables;
}

/** Returns the number of files with a later name than the newest: counted, they would have it removed as the oldest. */
function removeOldest(folder: string, { keep, newest }: { keep: number; newest: string }): number {
  const files = listBackups(folder);
  const kept = files.filter((file) => file <= newest);
  for (const file of kept.slice(0, -keep)) rmSync(file, { force: true });
  return files.length - kept.length;
}

/** Files left behind by a killed process. */
function removeAbandoned(folder: string): void {
  for (const name of readdirSync(folder).filter((one) => DRAFT_NAME.test(one))) {
    const draft = join(folder, name);
    const { mtimeMs = Number.POSITIVE_INFINITY } = statSync(draft, { throwIfNoEntry: false }) ?? {};
    if (mtimeMs < Date.now() - DRAFT_KEPT_MS) rmSync(draft, { force: true });
  }
}
