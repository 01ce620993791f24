/**
 * Checks the machine's limits for a process: open files and free disk space. Problems are sentences with the fix, for the startup log and
 * for `doctor`.
 */
import { readFileSync, statfsSync } from "node:fs";

/** An event stream holds a socket: an API process with its streams, requests and connections stays below this. */
const OPEN_FILES_MIN = 8_192;
const DISK_FREE_MIN_BYTES = 1_000_000_000;
const DISK_FREE_MIN_SHARE = 0.05;

/** `limits` has the form of /proc/self/limits; undefined where there is none. */
export function openFilesRisk(limits: string | undefined): string | undefined {
  const soft = /^Max open files\s+(\d+|unlimited)/m.exec(limits ?? "")?.[1];
  if (soft === undefined || soft === "unlimited" || Number(soft) >= OPEN_FILES_MIN) return undefined;
  return `at most ${soft} files and sockets may be open, but ${OPEN_FILES_MIN} are needed under load: raise the limit (ulimit -n ${OPEN_FILES_MIN}, LimitNOFILE= of systemd, ulimits of a container)`;
}

export type DiskSpace = { readonly freeBytes: number; readonly totalBytes: number };

/** Below 5 % and below 1 GB are both "nearly full": small disks have little, and large ones fill fast. */
export function isNearlyFull({ freeBytes, totalBytes }: DiskSpace): boolean {
  return freeBytes < DISK_FREE_MIN_BYTES || freeBytes < totalBytes * DISK_FREE_MIN_SHARE;
}

/** Undefined where the folder does not exist or may not be asked. */
export function readDiskSpace(folder: string): DiskSpace | undefined {
  try {
    const { bavail, blocks, bsize } = statfsSync(folder);
    return { freeBytes: bavail * bsize, totalBytes: blocks * bsize };
  } catch {
    return undefined;
  }
}

export function describeSpace({ freeBytes, totalBytes }: DiskSpace): string {
  const share = totalBytes === 0 ? 0 : Math.floor((100 * freeBytes) / totalBytes);
  return `${(freeBytes / 1e9).toFixed(1)} GB free of ${(totalBytes / 1e9).toFixed(1)} GB (${share} %)`;
}

/** Risks on this process's machine, empty when there are none. */
export function inspectMachine(folder = process.cwd()): string[] {
  const space = readDiskSpace(folder);
  const disk =
    space && isNearlyFull(space)
      ? `the disk of ${folder} is nearly full: ${describeSpace(space)}; make room or enlarge it`
      : undefined;
  return [openFilesRisk(readLimits()), disk].filter((risk) => risk !== undefined);
}

function readLimits(): string | undefined {
  try {
    return readFileSync("/proc/self/limits", "utf8");
  } catch {
    return undefined;
  }
}
