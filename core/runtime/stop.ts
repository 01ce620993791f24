/** Orderly ends: on SIGINT or SIGTERM the steps run in reverse order of registration, each with a bound, then the process exits. */
import type { Log } from "./log.ts";

const STEP_TIMEOUT_MS = 10_000;

export type Stop = {
  /** Aborted when the process is asked to end. */
  readonly signal: AbortSignal;
  /** Registers what must be closed; last registered is closed first. */
  onStop(name: string, close: () => unknown): void;
};

export function handleStop(log: Log): Stop {
  const controller = new AbortController();
  const steps: { name: string; close: () => unknown }[] = [];
  let stopping = false;
  const stop = async (reason: string, exitCode: number) => {
    if (stopping) return;
    stopping = true;
    log.info({ reason }, "stopping");
    controller.abort();
    for (const step of steps.reverse()) await closeStep(log, step);
    process.exit(exitCode);
  };
  process.on("SIGINT", () => void stop("SIGINT", 0));
  process.on("SIGTERM", () => void stop("SIGTERM", 0));
  process.on("uncaughtException", (error) => {
    log.fatal({ err: error }, "uncaught exception");
    void stop("uncaughtException", 1);
  });
  process.on("unhandledRejection", (error) => {
    log.fatal({ err: error }, "unhandled rejection");
    void stop("unhandledRejection", 1);
  });
  return { signal: controller.signal, onStop: (name, close) => void steps.push({ name, close }) };
}

async function closeStep(log: Log, step: { name: string; close: () => unknown }): Promise<void> {
  const timeout = new Promise((resolve) => setTimeout(resolve, STEP_TIMEOUT_MS, "timeout"));
  try {
    const result = await Promise.race([step.close(), timeout]);
    if (result === "timeout")
      log.warn({ step: step.name, timeoutMs: STEP_TIMEOUT_MS }, "stop step timed out");
  } catch (error) {
    log.warn({ step: step.name, err: error }, "stop step failed");
  }
}
