/** Tables for people, JSON for programs. Third-party texts are stripped of control characters: a description must not control the terminal. */
import { plain } from "./plain-text.ts";
import { type Column, tableOf } from "./table.ts";

export type Failure = {
  code: string;
  message: string;
  hint?: string | undefined;
  requestId?: string | undefined;
};

export type Output = {
  readonly isJson: boolean;
  /** As JSON with --json, else what `text` gives. */
  value: (value: unknown, text: () => string) => void;
  line: (text: string) => void;
  /** Separate from the result: progress, questions. Never part of what programs read. */
  note: (text: string) => void;
  fail: (failure: Failure) => void;
};

const COLUMNS_DEFAULT = 80;
const COLUMNS_MIN = 40;

export function openOutput({ isJson }: { isJson: boolean }): Output {
  return {
    isJson,
    value(value, text) {
      process.stdout.write(`${isJson ? JSON.stringify(value, null, 2) : text()}\n`);
    },
    line: (text) => void process.stdout.write(`${text}\n`),
    note: (text) => void process.stderr.write(`${text}\n`),
    fail({ code, message, hint, requestId }) {
      if (isJson) process.stderr.write(`${JSON.stringify({ error: { code, message, hint, requestId } })}\n`);
      else
        process.stderr.write(
          `${[`${code}: ${message}`, hint, requestId && `Request: ${requestId}`].filter(Boolean).join("\n")}\n`,
        );
    },
  };
}

export function printTable<Row>(rows: readonly Row[], columns: readonly Column<Row>[]): string {
  return tableOf(rows, columns, Math.max(COLUMNS_MIN, process.stdout.columns ?? COLUMNS_DEFAULT));
}

/** `name  value` below each other; null values are omitted. */
export function printFacts(facts: readonly (readonly [string, string | null | undefined])[]): string {
  const shown = facts.filter(([, value]) => value !== null && value !== undefined && value !== "");
  const width = Math.max(0, ...shown.map(([name]) => name.length));
  return shown.map(([name, value]) => `${name.padEnd(width)}  ${plain(value ?? "")}`).join("\n");
}

/** 12.5 as 12.50, 0.000001 as it is. */
export function formatUsdc(amount: number | string): string {
  const [whole = "0", part = ""] = Number(amount).toFixed(6).split(".");
  return `${whole}.${part.replace(/0{1,4}$/, "")}`;
}

/** To the minute, in the machine's time zone. */
export function formatTime(iso: string): string {
  const time = new Date(iso);
  const two = (value: number) => String(value).padStart(2, "0");
  const day = `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())}`;
  return `${day} ${two(time.getHours())}:${two(time.getMinutes())}`;
}
