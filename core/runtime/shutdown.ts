/** Graceful shutdown: on SIGINT, SIGTERM or a fatal failure the steps run in reverse order of registration, each with a timeout. */
import { ListenError } from "./listen.ts";
import type { Log } from "./log.ts";

const STEP_TIMEOUT_MS = 10_000;

export type Stop = {
  /** Aborted when the process is asked to stop, with the signal's name or the failure as its reason. */
  readonly signal: AbortSignal;
  /** Registers a clean-up step; the last registered runs first. `timeoutMs` bounds it. */
  onStop(name: string, close: () => unknown, timeoutMs?: number): void;
  /** Ends the process with code 1 after a failure it cannot recover from; the supervisor restarts it. `error` only where it says more than the reason. */
  fail(reason: string, error?: unknown): void;
};

export function handleStop(log: Log): Stop {
  const controller = new AbortController();
  const steps: Step[] = [];
  let stopping = false;
  const stop = async (reason: string, exitCode: number) => {
    if (stopping) return;
    stopping = true;
    log.info({ reason }, "stopping");
    controller.abort(reason);
    for (const step of steps.reverse()) await closeStep(log, step);
    process.exit(exitCode);
  };
  const fail = (reason: string, error?: unknown) => {
    if (!stopping) log.fatal(error === undefined ? {} : { err: error }, reason);
    void stop(reason, 1);
  };
  process.on("SIGINT", () => void stop("SIGINT", 0));
  process.on("SIGTERM", () => void stop("SIGTERM", 0));
  process.on("uncaughtException", (error) =>
    error instanceof ListenError ? fail(error.message) : fail("uncaught exception", error),
  );
  process.on("unhandledRejection", (error) => fail("unhandled rejection", error));
  return {
    signal: controller.signal,
    onStop: (name, close, timeoutMs = STEP_TIMEOUT_MS) => void steps.push({ name, close, timeoutMs }),
    fail,
  };
}

type Step = { name: string; close: () => unknown; timeoutMs: number };

async function closeStep(log: Log, step: Step): Promise<void> {
  const timeout = new Promise((resolve) => setTimeout(resolve, step.timeoutMs, "timeout"));
  try {
    const result = await Promise.race([step.close(), timeout]);
    if (result === "timeout") log.warn({ step: step.name, timeoutMs: step.timeoutMs }, "stop step timed out");
  } catch (error) {
    log.warn({ step: step.name, err: error }, "stop step failed");
  }
}
