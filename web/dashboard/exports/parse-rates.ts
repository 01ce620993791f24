/** Parses a table of exchange rates: a day and its rate on each line. Every line is checked before anything is stored. */
import { filledLines, splitCells } from "../parts/split-cells.ts";

/** Maximum days per request. */
export const RATES_MAX = 1_000;

export type RateLine = {
  readonly number: number;
  readonly date: string;
  readonly rate: string;
  /** An English text, to be translated; undefined if the line is valid. */
  readonly fault: string | undefined;
};

const DAY = /^\d{4}-\d{2}-\d{2}$/;
const RATE = /^\d{1,12}(\.\d{1,10})?$/;

export function readRates(text: string): RateLine[] {
  // a first line without a digit is a heading
  const rows = filledLines(text).filter(({ line }, index) => index > 0 || /\d/.test(line));
  const seen = new Set<string>();
  return rows.map(({ line, number }) => {
    const [date = "", ...rest] = splitCells(line);
    const rate = (rest[0] ?? "").replace(",", ".");
    const fault =
      faultOf(date, rate, rest.slice(1)) ?? (seen.has(date) ? "This date appears twice." : undefined);
    seen.add(date);
    return { number, date, rate, fault };
  });
}

function faultOf(date: string, rate: string, more: readonly string[]): string | undefined {
  if (!isDay(date)) return "Not a date: write it as 2026-10-31.";
  // 2026-10-31,0,92: the decimal comma would be read as a separator
  if (more.some((cell) => cell !== "")) return "Too many cells: a day and a rate.";
  const isRate = RATE.test(rate) && Number(rate) > 0;
  return isRate ? undefined : "Not a rate: use a positive number with at most 10 decimal places.";
}

function isDay(text: string): boolean {
  const time = DAY.test(text) ? new Date(`${text}T00:00:00Z`) : undefined;
  return time !== undefined && !Number.isNaN(time.getTime()) && time.toISOString().startsWith(text);
}
