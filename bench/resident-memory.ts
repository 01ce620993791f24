/** Resident memory of a process while something runs (Linux). */
import { readFileSync } from "node:fs";

const SAMPLE_EVERY_MS = 20;

export type Memory = { before: number; peak: number };

/** Resident megabytes of a process, sampled. */
export function watchMemory(pid: number) {
  const before = residentMegabytes(pid);
  let peak = before;
  const timer = setInterval(() => {
    peak = Math.max(peak, residentMegabytes(pid));
  }, SAMPLE_EVERY_MS);
  return {
    stop: (): Memory => {
      clearInterval(timer);
      return { before, peak: Math.max(peak, residentMegabytes(pid)) };
    },
  };
}

function residentMegabytes(pid: number): number {
  const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return Math.round(Number(kilobytes) / 1024);
}
