/** Identifies processes safely: ids are reused, so an id alone never justifies a signal. */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";

/** `startedAt` is the kernel's start time, constant for a process on the same boot. */
export type ProcessIdentity = { pid: number; startedAt: string };

/** The live process with this id; undefined when there is none or only a zombie. */
export function identifyProcess(pid: number): ProcessIdentity | undefined {
  const startedAt = process.platform === "linux" ? startedAtLinux(pid) : startedAtPortable(pid);
  return startedAt === undefined ? undefined : { pid, startedAt };
}

export function isSameProcessAlive(identity: ProcessIdentity): boolean {
  return identifyProcess(identity.pid)?.startedAt === identity.startedAt;
}

/** Waits until the process has ended; false when it is still alive after `timeoutMs`. */
export async function waitUntilGone(identity: ProcessIdentity, timeoutMs: number): Promise<boolean> {
  const deadline = Date.now() + timeoutMs;
  while (isSameProcessAlive(identity)) {
    if (Date.now() > deadline) return false;
    await Bun.sleep(20);
  }
  return true;
}

/** Field 3 of /proc/pid/stat is the state, field 22 the start time in ticks since boot; the name before them may hold blanks. */
function startedAtLinux(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const [state, ticks] = [fields[0], fields[19]];
    if (state === undefined || "ZX".includes(state) || ticks === undefined) return undefined;
    return `${readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim().slice(0, 8)}-${ticks}`;
  } catch {
    return undefined;
  }
}

function startedAtPortable(pid: number): string | undefined {
  const { status, stdout } = spawnSync("ps", ["-o", "stat=,lstart=", "-p", String(pid)], {
    encoding: "utf8",
  });
  const line = stdout.trim();
  return status === 0 && line !== "" && !line.startsWith("Z") ? line.replace(/^\S+\s+/, "") : undefined;
}
