/** What a report says about itself, in the words both reports use. */
import {
  EXPORT_ROWS_MAX,
  type ExportSummary,
  type ExportTotal,
  localTime,
} from "../../core/domain/export.ts";

/** Name and value, in order. */
export function factsOf(summary: ExportSummary): [string, string][] {
  const { newest, oldest, timeZone } = summary;
  const period =
    newest && oldest ? `${localTime(oldest, timeZone)} to ${localTime(newest, timeZone)}` : "no transactions";
  return [
    ["Merchant", summary.merchantName],
    ["Period", period],
    ["Time zone", timeZone],
    ["Filters", summary.filters.length > 0 ? summary.filters.join("; ") : "none"],
    ["Transactions", countOf(summary)],
    ["Generated", localTime(summary.generatedAt, timeZone)],
  ];
}

function countOf({ rows, matched }: ExportSummary): string {
  if (matched <= rows) return String(rows);
  return `the newest ${rows} of ${matched} (an export holds at most ${EXPORT_ROWS_MAX})`;
}

export function sumTotals(totals: readonly ExportTotal[]): { count: number; units: bigint } {
  return totals.reduce((sum, total) => ({ count: sum.count + total.count, units: sum.units + total.units }), {
    count: 0,
    units: 0n,
  });
}
