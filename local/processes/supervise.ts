/** Supervises the service's processes: one log file each, restarted when one dies, all stopped at the end. */
import { createWriteStream, existsSync, mkdirSync, renameSync, statSync, type WriteStream } from "node:fs";
import { join } from "node:path";
import type { ServiceKind } from "../service-env.ts";
import { type ServiceProcess, startServiceProcess } from "./service-process.ts";
import { forgetProcess, recordProcess } from "./stale-processes.ts";

export type SupervisedProcess = { kind: ServiceKind; env: Record<string, string | undefined> };

export type Supervisor = {
  /** Ids of the running processes, by kind. */
  pids: () => Partial<Record<ServiceKind, number>>;
  stop: () => Promise<void>;
};

export type SupervisorOptions = {
  dataDir: string;
  processes: readonly SupervisedProcess[];
  /** Receives a sentence when a process died and is restarted. */
  report: (sentence: string) => void;
  /** Called when a process refuses its settings: it is not restarted, since that would not help. */
  onMisconfigured: () => void;
};

/** Exit code of a process that refuses its settings or its database (core/runtime/env.ts). */
const MISCONFIGURED = 78;
const RESTART_FIRST_MS = 200;
const RESTART_MAX_MS = 10_000;
/** A process that lived this long is considered healthy: its next restart is immediate again. */
const HEALTHY_MS = 30_000;
const STOP_TIMEOUT_MS = 15_000;
const LOG_BYTES_MAX = 20 * 1024 * 1024;
const TOLD_LINES = 5;

export async function supervise({ processes, ...options }: SupervisorOptions): Promise<Supervisor> {
  const keepers = await Promise.all(processes.map((process) => keepRunning(process, options)));
  return {
    pids: () => Object.fromEntries(keepers.flatMap(({ kind, pid }) => (pid() ? [[kind, pid()]] : []))),
    stop: async () => {
      await Promise.all(keepers.map((keeper) => keeper.stop()));
    },
  };
}

async function keepRunning(
  { kind, env }: SupervisedProcess,
  { dataDir, report, onMisconfigured }: Omit<SupervisorOptions, "processes">,
) {
  const log = openLogFile(join(dataDir, "logs"), kind);
  let lastLines: string[] = [];
  let reported = "";
  let current: ServiceProcess | undefined;
  let wake = () => {};
  let stopping = false;

  const start = async () => {
    lastLines = [];
    current = await startServiceProcess(kind, env, (line) => {
      log.write(`${line}\n`);
      lastLines = [...lastLines.slice(1 - TOLD_LINES), line];
    });
    recordProcess(dataDir, kind, current.pid);
    return current;
  };

  const watch = async (first: ServiceProcess) => {
    let pauseMs = RESTART_FIRST_MS;
    let child = first;
    for (;;) {
      const startedAt = Date.now();
      const code = await child.exited;
      current = undefined;
      forgetProcess(dataDir, kind);
      if (stopping) return;
      pauseMs = Date.now() - startedAt > HEALTHY_MS ? RESTART_FIRST_MS : pauseMs;
      // The same last output is reported once, not at every restart.
      const words = quote(code, lastLines);
      if (code === MISCONFIGURED) {
        report(`${kind} cannot run with these settings.${words}`);
        return onMisconfigured();
      }
      report(`${kind} ended (${code}) and restarts in ${pauseMs} ms.${words === reported ? "" : words}`);
      reported = words;
      await Promise.race([Bun.sleep(pauseMs), new Promise<void>((resolve) => (wake = resolve))]);
      if (stopping) return;
      pauseMs = Math.min(pauseMs * 2, RESTART_MAX_MS);
      child = await start();
    }
  };
  const watching = watch(await start());
  const stop = async () => {
    stopping = true;
    wake();
    await current?.stop(STOP_TIMEOUT_MS);
    await watching;
    await new Promise<void>((resolve) => log.end(() => resolve()));
  };
  return { kind, pid: () => current?.pid, stop };
}

/** The last output of a process explains an exit of its own, not one by a signal. */
function quote(code: number | string, lines: readonly string[]): string {
  return typeof code === "number" && lines.length > 0
    ? `\n${lines.map((line) => `    ${line}`).join("\n")}`
    : "";
}

function openLogFile(folder: string, kind: ServiceKind): WriteStream {
  mkdirSync(folder, { recursive: true });
  const file = join(folder, `${kind}.log`);
  if (existsSync(file) && statSync(file).size > LOG_BYTES_MAX)
    renameSync(file, join(folder, `${kind}.previous.log`));
  return createWriteStream(file, { flags: "a" });
}
