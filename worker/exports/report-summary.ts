/** What a report says about itself, in the words both reports use. */
import {
  EXPORT_ROWS_MAX,
  type ExportSummary,
  type ExportTotal,
  localTime,
} from "../../core/domain/export.ts";
import { formatUnits } from "../../core/domain/money.ts";
import { directionOf, isMoneyMoved } from "../../core/domain/transaction.ts";

/** Name and value, in order. */
export function factsOf(summary: ExportSummary): [string, string][] {
  const { newest, oldest, timeZone } = summary;
  const period =
    newest && oldest
      ? `${readableTime(oldest, timeZone)} to ${readableTime(newest, timeZone)}`
      : "no transactions";
  return [
    ["Merchant", summary.merchantName],
    ["Period", period],
    ["Time zone", timeZone],
    ["Filters", summary.filters.length > 0 ? summary.filters.join("; ") : "none"],
    ["Transactions", countOf(summary)],
    ["Generated", readableTime(summary.generatedAt, timeZone)],
  ];
}

function countOf({ rows, matched }: ExportSummary): string {
  if (matched <= rows) return String(rows);
  return `the newest ${rows} of ${matched} (an export holds at most ${EXPORT_ROWS_MAX})`;
}

/** Rows and their money by direction, in micro-USDC. */
export type Sums = { count: number; inUnits: bigint; outUnits: bigint };

/** What came in and what went out of these totals, by the direction of each type. */
export function sumTotals(totals: readonly ExportTotal[]): Sums {
  const sums = { count: 0, inUnits: 0n, outUnits: 0n };
  for (const { type, count, units } of totals) {
    sums.count += count;
    sums[`${directionOf(type)}Units`] += units;
  }
  return sums;
}

export function sumConfirmed(totals: readonly ExportTotal[]): Sums {
  return sumTotals(totals.filter(({ status }) => isMoneyMoved(status)));
}

/** Count, in, out and net as text. */
export function presentSums({ count, inUnits, outUnits }: Sums): [string, string, string, string] {
  return [String(count), formatUnits(inUnits), formatUnits(outUnits), formatUnits(inUnits - outUnits)];
}

/** "2026-03-29 03:30:00 +02:00" */
export function readableTime(instant: Date, timeZone: string): string {
  return localTime(instant, timeZone)
    .replace("T", " ")
    .replace(/(?=[+-]\d\d:\d\d$)/, " ");
}

export const STATUS_NOTE =
  "Only CONFIRMED transactions are final. PENDING and DETECTED ones may still change; FAILED and ORPHANED ones moved nothing.";
