/** The environment of backups: the database, and the key that only backups have. */
import { postgresUrl, readEnv, secretList } from "../../core/runtime/env.ts";
import { secretFaults } from "../../core/runtime/production-env.ts";

const shape = {
  DATABASE_URL: postgresUrl,
  BACKUP_KEY: secretList("it encrypts backups; keep a copy elsewhere: without it no backup can be read"),
} as const;

/** Names of all variables that backups read. */
export const BACKUP_SETTINGS = Object.keys(shape);

type Environment = Record<string, string | undefined>;

/** For commands that write backups. The newest key encrypts them, so it must not be guessable; the others only decrypt older files. */
export function readBackupConfig(source?: Environment) {
  const env = readEnv(shape, source, ({ BACKUP_KEY: keys }) =>
    secretFaults({ BACKUP_KEY: keys?.slice(0, 1) }),
  );
  return toConfig(env);
}

/** For commands that read backups: any key that a backup may have been written with, guessable ones included. */
export function readRestoreConfig(source?: Environment) {
  return toConfig(readEnv(shape, source));
}

function toConfig({ DATABASE_URL: databaseUrl, BACKUP_KEY: keys }: ReturnType<typeof readEnv<typeof shape>>) {
  return { databaseUrl, keys };
}

const UNITS: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Maximum delay of a timer; a longer one fires immediately. */
const INTERVAL_MAX_MS = 2 ** 31 - 1;

/** "6h" in milliseconds; undefined for anything else than whole minutes, hours or days, and beyond 24 days. */
export function parseInterval(text: string): number | undefined {
  const [, count = "", unit = ""] = /^([1-9]\d{0,4})([mhd])$/.exec(text) ?? [];
  const unitMs = UNITS[unit];
  if (unitMs === undefined) return undefined;
  const intervalMs = Number(count) * unitMs;
  return intervalMs <= INTERVAL_MAX_MS ? intervalMs : undefined;
}
