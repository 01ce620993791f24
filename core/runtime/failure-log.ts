/** Logs failures that repeat until their cause is corrected: once when they begin, then once a minute with the number of repetitions. */
import type { Log } from "./log.ts";

type Failure = { err: unknown } & Record<string, unknown>;
export type FailureLog = (level: "warn" | "error", failure: Failure, message: string) => void;

const REPEATED_AFTER_MS = 60_000;
/** More kinds than this are no longer repetitions. */
const KINDS_MAX = 100;

/** Failures are of one kind when their message, fields and error agree in all but numbers, such as a remaining time. */
export function openFailureLog(log: Pick<Log, "warn" | "error">): FailureLog {
  const kinds = new Map<string, { loggedMs: number; repeated: number }>();
  return (level, failure, message) => {
    const kind = kindOf(failure, message);
    const known = kinds.get(kind);
    const nowMs = performance.now();
    if (known && nowMs - known.loggedMs < REPEATED_AFTER_MS) {
      known.repeated += 1;
      return;
    }
    if (kinds.size >= KINDS_MAX) kinds.clear();
    kinds.set(kind, { loggedMs: nowMs, repeated: 0 });
    log[level](known && known.repeated > 0 ? { ...failure, repeated: known.repeated } : failure, message);
  };
}

function kindOf({ err, ...fields }: Failure, message: string): string {
  const error = err instanceof Error ? `${err.name} ${err.message}` : String(err);
  return `${message} ${JSON.stringify(fields)} ${error}`.replace(/\d+/g, "0");
}
