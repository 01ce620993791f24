/** Child processes that cannot outlive us: even after SIGKILL, the kernel or a watching shell ends them. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";

type Signal = "SIGINT" | "SIGTERM" | "SIGKILL";

export type BoundProcessOptions = {
  command: string;
  args: readonly string[];
  /** The child's complete environment; ours when omitted. */
  env?: Record<string, string | undefined>;
  cwd?: string;
  /** The first signal of `stop()`. */
  stopSignal: "SIGINT" | "SIGTERM";
  /** The signal the child gets when we die; the stop signal when omitted. */
  orphanSignal?: Signal;
  /** Receives raw chunks of stdout and stderr. */
  onOutput?: (chunk: Buffer) => void;
  /** Prefix of the command, inside the binding (`unshare -U …`). */
  prefix?: readonly string[];
  uid?: number;
  gid?: number;
};

export type BoundProcess = {
  pid: number;
  /** Resolves when the process has ended, with its code or the name of the signal. */
  exited: Promise<number | string>;
  kill: (signal: Signal) => void;
  /** Sends the stop signal, and SIGKILL to the group after `timeoutMs`. Resolves when it has ended. */
  stop: (timeoutMs?: number) => Promise<void>;
};

const STOP_TIMEOUT_MS = 10_000;

/**
 * Without `setpriv` (macOS, small images) a shell waits on a pipe that only we hold open: end of file means that we died.
 * $1 is the stop signal's short name, the rest is the command.
 */
const WATCHING_SHELL = `sig=$1; shift
exec 3<&0
"$@" 3<&- </dev/null & child=$!
(read _ <&3; kill -$sig $child) 2>/dev/null & watch=$!
exec 3<&-
trap 'kill -INT $child' INT
trap 'kill -TERM $child' TERM
while :; do wait $child; code=$?; kill -0 $child 2>/dev/null || break; done
kill $watch 2>/dev/null
exit $code`;

/** Starts a process in its own session (Ctrl-C in the terminal reaches only us) that ends when we end. Throws when it cannot be started. */
export async function spawnBound(options: BoundProcessOptions): Promise<BoundProcess> {
  const [command = "", ...args] = bind(
    [...(options.prefix ?? []), options.command, ...options.args],
    options,
  );
  const child = spawn(command, args, {
    detached: true,
    stdio: ["pipe", "pipe", "pipe"],
    env: options.env ?? process.env,
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    ...(options.uid === undefined ? {} : { uid: options.uid }),
    ...(options.gid === undefined ? {} : { gid: options.gid }),
  });
  const exited = new Promise<number | string>((resolve) => {
    child.once("exit", (code, signal) => resolve(code ?? signal ?? "unknown"));
  });
  await Promise.race([
    once(child, "spawn"),
    once(child, "error").then(([cause]) => {
      throw new Error(`${options.command} could not be started`, { cause });
    }),
  ]);
  const onOutput = options.onOutput ?? (() => {});
  child.stdout?.on("data", onOutput);
  child.stderr?.on("data", onOutput);
  return control(child, exited, options.stopSignal);
}

function control(child: ChildProcess, exited: Promise<number | string>, stopSignal: Signal): BoundProcess {
  const { pid } = child;
  if (pid === undefined) throw new Error("the process has no id");
  const kill = (signal: Signal) => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    try {
      process.kill(signal === "SIGKILL" ? -pid : pid, signal);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
    }
  };
  const stop = async (timeoutMs = STOP_TIMEOUT_MS) => {
    kill(stopSignal);
    const timer = setTimeout(() => kill("SIGKILL"), timeoutMs);
    await exited;
    clearTimeout(timer);
  };
  return { pid, exited, kill, stop };
}

function bind(command: readonly string[], options: BoundProcessOptions): string[] {
  const signal = (options.orphanSignal ?? options.stopSignal).slice("SIG".length);
  if (!hasParentDeathSignal()) return ["sh", "-c", WATCHING_SHELL, "sh", signal, ...command];
  // A change of user clears the death signal, so the last program before the real one sets it, after `unshare`.
  const prefixLength = options.prefix?.length ?? 0;
  const binding = ["setpriv", "--pdeathsig", signal];
  return [...command.slice(0, prefixLength), ...binding, ...command.slice(prefixLength)];
}

let parentDeathSignal: boolean | undefined;
function hasParentDeathSignal(): boolean {
  parentDeathSignal ??= spawnSync("setpriv", ["--pdeathsig", "TERM", "true"]).status === 0;
  return parentDeathSignal;
}
