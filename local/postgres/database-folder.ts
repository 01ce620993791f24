/** The folder of the database in DATA_DIR. */
import { existsSync } from "node:fs";
import { join } from "node:path";

/** Changes with a baseline schema to which an older database cannot be migrated. */
const FOLDER = "database";
const EARLIER_FOLDER = "postgres";

/** The folder to use and, on its first use beside an earlier version's database, one sentence about both. */
export function chooseDatabaseFolder(dataDir: string): { folder: string; notice: string | undefined } {
  const folder = join(dataDir, FOLDER);
  const earlier = join(dataDir, EARLIER_FOLDER);
  const isFirstUse = !existsSync(folder) && existsSync(earlier);
  const notice = `The database in ${earlier} is of an earlier version and can't be upgraded: a new one starts in ${folder}, the old one is kept.`;
  return { folder, notice: isFirstUse ? notice : undefined };
}
