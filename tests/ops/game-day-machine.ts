/** Alarms of the machine: a process on a small disk that fills and one with a low limit of open files, both real limits of the kernel, and backups that stopped. */
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readDiskSpace } from "../../core/runtime/machine-limits.ts";
import { recordBackup } from "../../db/backup/last-backup.ts";
import { type ServiceProgram, sourceProgram } from "../../local/processes/service-process.ts";
import type { ServiceKind } from "../../local/service-env.ts";
import { waitFor } from "../support/relay-lab.ts";
import type { GameDay, Scenario } from "./game-day-scenario.ts";

const ROOT = join(import.meta.dir, "../..");
const DISK_BYTES = 8 * 1024 * 1024;
const FILES_MAX = 512;
/** More than 80 % of them, and still room for the process's own. */
const IDLE_CONNECTIONS = 420;
/** Over the limit of 30 hours. */
const BACKUP_AGE_MS = 31 * 3_600_000;

export const MACHINE_SCENARIOS: readonly Scenario[] = [
  {
    alert: "DiskNearlyFull",
    cureText: "move backups away",
    async provoke(day) {
      const folder = mkdtempSync(join(tmpdir(), "game-day-disk-"));
      await runAs(day, "worker", onSmallDisk(folder));
      // mounted for this process alone, once its shell has got that far
      const disk = `/proc/${day.lab.service.pidOf("worker")}/cwd`;
      await waitFor("the worker to use its small disk", async () => {
        return readDiskSpace(disk)?.totalBytes === DISK_BYTES;
      });
      const backup = join(disk, "backup");
      writeFileSync(backup, Buffer.alloc(Math.floor(DISK_BYTES * 0.95)));
      return async () => {
        rmSync(backup);
        await runAs(day, "worker", undefined);
        rmSync(folder, { recursive: true });
      };
    },
  },
  {
    alert: "BackupMissing",
    cureText: "run `bun run backup` by hand",
    async provoke({ lab }) {
      await recordBackup(lab.sql, new Date(Date.now() - BACKUP_AGE_MS));
      return async () => {
        const folder = mkdtempSync(join(tmpdir(), "game-day-backup-"));
        const { PATH, HOME } = process.env;
        const key = randomBytes(32).toString("hex");
        const backup = Bun.spawn(
          [process.execPath, "--no-env-file", join(ROOT, "ops/backup-main.ts"), "--folder", folder],
          {
            env: { PATH, HOME, DATABASE_URL: lab.db.url, BACKUP_KEY: key },
            stdout: "ignore",
            stderr: "inherit",
          },
        );
        const code = await backup.exited;
        rmSync(folder, { recursive: true });
        if (code !== 0) throw new Error(`the backup ended with ${code}`);
      };
    },
  },
  {
    alert: "OpenFilesNearlyUsedUp",
    cureText: "raise `LimitNOFILE`",
    async provoke(day) {
      await runAs(day, "api", {
        command: "sh",
        args: ["-c", `ulimit -n ${FILES_MAX} && exec "$@"`, "sh", ...fromSources("api")],
      });
      const disconnect = await keepConnected(day.lab.service.baseUrl, IDLE_CONNECTIONS);
      return async () => {
        await runAs(day, "api", undefined);
        disconnect();
      };
    },
  },
];

async function runAs(
  { lab, programs }: GameDay,
  kind: ServiceKind,
  program: ServiceProgram | undefined,
): Promise<void> {
  if (program) programs.set(kind, program);
  else programs.delete(kind);
  await lab.service.restart(kind);
}

function fromSources(kind: ServiceKind): string[] {
  const { command, args } = sourceProgram(kind);
  return [command, ...args.map((arg) => (arg.endsWith(".ts") ? join(ROOT, arg) : arg))];
}

/** The worker in a folder that is a file system of its own, in a mount namespace: no root is needed where user namespaces are allowed. */
function onSmallDisk(folder: string): ServiceProgram {
  const script = `mount -t tmpfs -o size=${DISK_BYTES} tmpfs "$0" && cd "$0" && exec "$@"`;
  return {
    command: "unshare",
    args: ["--user", "--map-root-user", "--mount", "sh", "-c", script, folder, ...fromSources("worker")],
  };
}

/** Open connections that ask for nothing; one that the server closes is opened again. */
async function keepConnected(baseUrl: string, count: number): Promise<() => void> {
  let isOver = false;
  const open = new Set<{ end(): void }>();
  const connect = async () => {
    const socket = await Bun.connect({
      hostname: "127.0.0.1",
      port: Number(new URL(baseUrl).port),
      socket: {
        data() {},
        close(closed) {
          open.delete(closed);
          if (!isOver) connect().catch(() => undefined);
        },
      },
    });
    open.add(socket);
  };
  for (let index = 0; index < count; index++) await connect();
  return () => {
    isOver = true;
    for (const socket of open) socket.end();
  };
}
