/** Structured logs: JSON lines on stdout. Only named fields are logged, never bodies, headers or rows. */
import pino from "pino";
import { sqlStateOf } from "./sql-state.ts";

export type Log = pino.Logger;

/** Paths that are redacted even when an object that has them is logged by mistake. */
const REDACTED = [
  "otp",
  "code",
  "cookie",
  "authorization",
  "authToken",
  "signature",
  "raw",
  "privateKey",
  "password",
  "secret",
  "token",
].flatMap((name) => [name, `*.${name}`, `*.*.${name}`]);

export function openLog(processName: string, level: string): Log {
  return pino({
    level,
    base: { process: processName, pid: process.pid },
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
    serializers: { err: describeError, error: describeError },
    redact: { paths: REDACTED, censor: "[redacted]" },
  });
}

/** What is logged of an error: name, SQLSTATE, message, stack and the chain of causes, without query parameters. */
function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return String(error);
  const sqlState = sqlStateOf(error);
  return {
    name: error.name,
    ...(sqlState === undefined ? {} : { sqlState }),
    message: error.message,
    stack: error.stack,
    ...(error.cause === undefined ? {} : { cause: describeError(error.cause) }),
  };
}
