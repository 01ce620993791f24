/** The key that encrypts new backups is random; any key still opens what was written with it. */
import { expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { readBackupConfig, readRestoreConfig } from "../../ops/backup/configuration.ts";

const DATABASE_URL = "postgres://nobody@127.0.0.1:1/none";
const random = () => randomBytes(32).toString("hex");
const GUESSABLE = ["a".repeat(64), "passwordpasswordpasswordpassword", "1234567890".repeat(4)];

test.each(GUESSABLE)("error: no backup is written with the guessable key %s", (key) => {
  const read = () => readBackupConfig({ DATABASE_URL, BACKUP_KEY: `${key},${random()}` });
  expect(read).toThrow("BACKUP_KEY: is guessable; make one with `openssl rand -hex 32`");
});

test("error: a key of fewer than 32 characters is refused", () => {
  const read = () => readBackupConfig({ DATABASE_URL, BACKUP_KEY: random().slice(0, 31) });
  expect(read).toThrow("BACKUP_KEY: must be at least 32 bytes");
});

test.each(GUESSABLE)(
  "a backup written with %s can be restored, and a new key put before it is used for new backups",
  (key) => {
    expect(readRestoreConfig({ DATABASE_URL, BACKUP_KEY: key }).keys).toEqual([key]);
    const keys = [random(), key];
    expect(readBackupConfig({ DATABASE_URL, BACKUP_KEY: keys.join(",") }).keys as string[]).toEqual(keys);
  },
);

test("error: the command exits with code 78 and one message, which does not contain the key", () => {
  const program = join(import.meta.dir, "../../ops/backup-main.ts");
  const env = { DATABASE_URL, BACKUP_KEY: "a".repeat(64) };
  const { exitCode, stdout, stderr } = Bun.spawnSync([process.execPath, "--no-env-file", program], {
    ...({ env, stdout: "pipe", stderr: "pipe" } as const),
  });
  const written = `${stdout}${stderr}`;
  expect([exitCode, written.includes("BACKUP_KEY: is guessable"), written.includes("aaaa")]).toEqual([
    78,
    true,
    false,
  ]);
});
