/** `bun run restore FILE`: restores a backup into the empty database of DATABASE_URL. Needs the BACKUP_KEY it was written with. */
import { readEnvOrExit } from "../core/runtime/env.ts";
import { readBackupConfig } from "./backup/configuration.ts";
import { restoreBackup } from "./backup/restore-backup.ts";

const [file] = process.argv.slice(2);
if (!file) {
  console.error("bun run restore FILE, with an empty database in DATABASE_URL");
  process.exit(64); // EX_USAGE of sysexits.h
}
const { databaseUrl, keys } = readEnvOrExit(() => readBackupConfig());
try {
  const { createdAt, tables, migrated } = await restoreBackup(databaseUrl, { file, keys });
  console.log(`restored ${tables} tables as of ${createdAt}`);
  if (migrated.length > 0) console.log(`then applied ${migrated.join(", ")}`);
  console.log(
    "Start the indexer until its lag is 0, then the worker, then the api (docs/OPERATIONS.md, Backups).",
  );
} catch (error) {
  console.error(`nothing was restored: ${error instanceof Error ? error.message : String(error)}`);
  process.exit(1);
}
