/** Restores a backup into an empty database: its schema as it was, its rows, then the migrations of this version. */
import { loadRecords, readHeader } from "../../db/backup/load.ts";
import { refuseEarlier } from "../../db/postgres/baseline.ts";
import { openDatabase } from "../../db/postgres/client.ts";
import { listUnknownMigrations, migrate } from "../../db/postgres/migrate.ts";
import { countTables, type Keys, openBackup } from "./write-backup.ts";

export type Restored = { createdAt: string; tables: number; migrated: string[] };

/** The rows were restored but migrations are missing: the database must not be mistaken for an empty one. */
export class NotMigratedError extends Error {}

/**
 * Throws a sentence, with the database unchanged, when it is not empty or the file is not a whole backup; NotMigratedError when everything
 * of the backup was restored and a migration after it failed.
 */
export async function restoreBackup(
  databaseUrl: string,
  { file, keys }: { file: string; keys: Keys },
): Promise<Restored> {
  await assertEmpty(databaseUrl);
  // read once to its end before anything is written
  await countTables(file, keys);
  const records = openBackup(file, keys);
  const { createdAt, migrations } = readHeader((await records.next()).value);
  refuseEarlier("backup", migrations);
  const newer = await listUnknownMigrations(migrations);
  if (newer.length > 0)
    throw new Error(
      `the backup is from a newer version (it has ${newer.join(", ")}): restore it with that version`,
    );
  await migrate(databaseUrl, { only: migrations });
  const sql = openDatabase(databaseUrl, { name: "restore", maxConnections: 1, silenceTimeoutS: 0 });
  try {
    const tables = await sql.begin(async (tx) => {
      await tx`set local statement_timeout = 0`;
      await tx`set local idle_in_transaction_session_timeout = 0`;
      const loaded = await loadRecords(tx, records);
      // here, without a time limit: it takes minutes in a large database
      await tx`analyze`;
      return loaded;
    });
    const migrated = await migrate(databaseUrl).catch((cause) => {
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw new NotMigratedError(
        `restored ${tables} tables as of ${createdAt}, but not migrated: ${reason}. Fix that and run \`bun run migrate\``,
        { cause },
      );
    });
    return { createdAt, tables, migrated };
  } finally {
    await sql.end({ timeout: 5 });
  }
}

async function assertEmpty(databaseUrl: string): Promise<void> {
  const sql = openDatabase(databaseUrl, { name: "restore", maxConnections: 1 });
  try {
    const [found] = await sql<{ name: string }[]>`
      select table_name as name from information_schema.tables where table_schema = 'public' limit 1`;
    if (found)
      throw new Error(
        `the database is not empty (it has the table ${found.name}): create a new one and set DATABASE_URL to it`,
      );
  } finally {
    await sql.end({ timeout: 5 });
  }
}
