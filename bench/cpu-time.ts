/** CPU time of processes on this machine by the Linux scheduler, unaffected by other processes. */
import { readdirSync, readFileSync } from "node:fs";

/** Milliseconds of all threads of these processes so far. Ended processes and threads are not counted. */
export function cpuMilliseconds(pids: readonly number[]): number {
  let nanoseconds = 0;
  for (const pid of pids) for (const thread of threadsOf(pid)) nanoseconds += runtimeOf(pid, thread);
  return nanoseconds / 1e6;
}

function threadsOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/task`);
  } catch {
    return [];
  }
}

function runtimeOf(pid: number, thread: string): number {
  try {
    return Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ")[0]);
  } catch {
    return 0;
  }
}

/** Postgres' processes that serve this database. */
export function pidsOfDatabase(name: string): number[] {
  return readdirSync("/proc")
    .filter((entry) => /^\d+$/.test(entry) && commandOf(entry).startsWith("postgres:"))
    .filter((entry) => commandOf(entry).includes(` ${name} `))
    .map(Number);
}

function commandOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return "";
  }
}
