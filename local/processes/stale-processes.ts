/** Records the processes we started with their start times, so that a start after a crash ends exactly those. */
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  identifyProcess,
  isSameProcessAlive,
  type ProcessIdentity,
  waitUntilGone,
} from "./process-identity.ts";

const TERM_TIMEOUT_MS = 5_000;
const KILL_TIMEOUT_MS = 5_000;

export function recordProcess(dataDir: string, name: string, pid: number): void {
  const identity = identifyProcess(pid);
  if (!identity) return;
  const folder = join(dataDir, "processes");
  mkdirSync(folder, { recursive: true });
  const file = join(folder, `${name}.json`);
  writeFileSync(`${file}.new`, JSON.stringify(identity));
  renameSync(`${file}.new`, file);
}

export function forgetProcess(dataDir: string, name: string): void {
  rmSync(join(dataDir, "processes", `${name}.json`), { force: true });
}

/** Ends processes left over from an earlier start; returns their names. Only for the holder of the folder's lock. */
export async function endLeftovers(dataDir: string): Promise<string[]> {
  const folder = join(dataDir, "processes");
  if (!existsSync(folder)) return [];
  const ended: string[] = [];
  for (const entry of readdirSync(folder)) {
    const identity = readIdentity(join(folder, entry));
    if (identity && isSameProcessAlive(identity)) {
      await endProcess(identity);
      ended.push(entry.replace(/\.json$/, ""));
    }
    rmSync(join(folder, entry), { force: true });
  }
  return ended;
}

async function endProcess(identity: ProcessIdentity): Promise<void> {
  process.kill(identity.pid, "SIGTERM");
  if (await waitUntilGone(identity, TERM_TIMEOUT_MS)) return;
  if (isSameProcessAlive(identity)) process.kill(identity.pid, "SIGKILL");
  await waitUntilGone(identity, KILL_TIMEOUT_MS);
}

function readIdentity(file: string): ProcessIdentity | undefined {
  try {
    const { pid, startedAt } = JSON.parse(readFileSync(file, "utf8")) as Partial<ProcessIdentity>;
    return typeof pid === "number" && typeof startedAt === "string" ? { pid, startedAt } : undefined;
  } catch {
    return undefined;
  }
}
