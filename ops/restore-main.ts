/** `bun run restore FILE`: restores a backup into the empty database of DATABASE_URL. Needs the BACKUP_KEY it was written with. */
import { readArgumentsOrExit } from "../core/runtime/command-line.ts";
import { readEnvOrExit } from "../core/runtime/env.ts";
import { describeDatabaseFailure } from "../db/postgres/retry-while-unavailable.ts";
import { readRestoreConfig } from "./backup/configuration.ts";
import { NotMigratedError, restoreBackup } from "./backup/restore-backup.ts";

const usage = "bun run restore FILE, with an empty database in DATABASE_URL";
const [file = ""] = readArgumentsOrExit(usage, {}, { positionals: 1 }).positionals;
const { databaseUrl, keys } = readEnvOrExit(() => readRestoreConfig());
try {
  const { createdAt, tables, migrated } = await restoreBackup(databaseUrl, { file, keys });
  console.log(`restored ${tables} tables as of ${createdAt}`);
  if (migrated.length > 0) console.log(`then applied ${migrated.join(", ")}`);
  console.log(
    "Start the indexer until its lag is 0, then the worker, then the api (docs/OPERATIONS.md, Backups).",
  );
} catch (error) {
  const reason = describeDatabaseFailure(databaseUrl, error);
  console.error(error instanceof NotMigratedError ? reason : `nothing was restored: ${reason}`);
  process.exit(1);
}
