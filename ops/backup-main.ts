/**
 * `bun run backup [--folder backups] [--keep 28] [--every 6h]`: writes an encrypted backup of the running service's database, reads
 * it back, keeps the newest ones, and with `--every` repeats. Needs DATABASE_URL and BACKUP_KEY.
 */
import { constants } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { endWithUsage, readArgumentsOrExit } from "../core/runtime/command-line.ts";
import { readEnvOrExit } from "../core/runtime/env.ts";
import { recordBackup } from "../db/backup/last-backup.ts";
import { openDatabase } from "../db/postgres/client.ts";
import { describeDatabaseFailure } from "../db/postgres/retry-while-unavailable.ts";
import { parseInterval, readBackupConfig } from "./backup/configuration.ts";
import { writeBackup } from "./backup/write-backup.ts";

const KEPT_DEFAULT = "28";
/** After a failure, with `--every`: the database may be restarting. */
const RETRY_MS = 60_000;

const USAGE = "bun run backup [--folder FOLDER] [--keep COUNT] [--every 30m|6h|1d, at most 24d]";
const text = { type: "string" } as const;
const { values } = readArgumentsOrExit(USAGE, { folder: text, keep: text, every: text });
const keep = Number(values.keep ?? KEPT_DEFAULT);
const everyMs = values.every === undefined ? undefined : parseInterval(values.every);
if (!Number.isInteger(keep) || keep < 1 || (values.every !== undefined && everyMs === undefined))
  endWithUsage(USAGE);
const { databaseUrl, keys } = readEnvOrExit(() => readBackupConfig());
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stop(signal));

for (;;) {
  const isWritten = await backUp();
  if (everyMs === undefined) process.exit(isWritten ? 0 : 1);
  await sleep(isWritten ? everyMs : RETRY_MS);
}

/** With `--every` being stopped is normal; an interrupted single backup must not look like a written one. */
function stop(signal: "SIGINT" | "SIGTERM"): never {
  if (everyMs !== undefined) process.exit(0);
  console.error(`the backup was interrupted (${signal})`);
  process.exit(128 + constants.signals[signal]);
}

async function backUp(): Promise<boolean> {
  const sql = openDatabase(databaseUrl, { name: "backup", maxConnections: 1, silenceTimeoutS: 0 });
  const now = new Date();
  try {
    const { file, bytes, tables, ahead } = await writeBackup(sql, {
      folder: values.folder ?? "backups",
      keys,
      keep,
      now,
    });
    console.log(`${file}: ${tables} tables, ${(bytes / 1e6).toFixed(1)} MB, read back and complete`);
    if (ahead > 0)
      console.log(
        `${ahead} older backup(s) have a later time in their names, of a clock that was ahead: they are kept until you remove them`,
      );
    await recordBackup(sql, now).catch(reportUnrecorded);
    return true;
  } catch (error) {
    console.error(`the backup failed: ${describeDatabaseFailure(databaseUrl, error)}`);
    return false;
  } finally {
    await sql.end({ timeout: 5 });
  }
}

/** A standby takes no writes, and before an upgrade the table may not be there yet. */
function reportUnrecorded(error: unknown): void {
  const reason = error instanceof Error ? error.message : String(error);
  console.error(
    `the time of this backup could not be stored in the database, so no alert watches it: ${reason}`,
  );
}
