/** Stopping a process with SIGSTOP, which takes a moment for all of its threads where the machine is busy. Linux. */
import { readdirSync, readFileSync } from "node:fs";
import { waitFor } from "./relay-lab.ts";

/** Resolves when no thread of the process runs. `process.kill(pid, "SIGCONT")` thaws it. */
export async function freeze(pid: number): Promise<void> {
  process.kill(pid, "SIGSTOP");
  await waitFor(`process ${pid} to be stopped`, async () =>
    readdirSync(`/proc/${pid}/task`).every((thread) => stateOf(pid, thread) === "T"),
  );
}

/** One letter, after the name in brackets. */
function stateOf(pid: number, thread: string): string | undefined {
  return /\) (\w)/.exec(readFileSync(`/proc/${pid}/task/${thread}/stat`, "utf8"))?.[1];
}
