/** Totals and scope of a report, as the PDF and the text report print them. The sums by type and status come from SQL: `summarizeExport` of db/exports/export-rows.ts. */
import { EXPORT_ROWS_MAX, type ExportSummary, type ExportTotal } from "../../core/domain/export.ts";
import { localTime } from "../../core/domain/local-time.ts";
import { formatUnits } from "../../core/domain/money.ts";
import { NETWORKS } from "../../core/domain/networks.ts";
import { directionOf, type HistoryRow, isMoneyMoved } from "../../core/domain/transaction.ts";

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
    ...testFacts(summary),
    ["Generated", readableTime(summary.generatedAt, timeZone)],
  ];
}

function countOf({ rows, matched }: ExportSummary): string {
  if (matched <= rows) return String(rows);
  return `the newest ${rows} of ${matched} (an export holds at most ${EXPORT_ROWS_MAX})`;
}

function* testFacts({ totals }: ExportSummary): Generator<[string, string]> {
  if (!totals.some(({ isTest }) => isTest)) return;
  yield ["Test network", hasRealMoney(totals) ? "No real money; not in the total." : "No real money."];
}

/** With movements of a network with real money, those of test networks are in no sum. */
function hasRealMoney(totals: readonly ExportTotal[]): boolean {
  return totals.some(({ isTest }) => !isTest);
}

/** Whether the total has this row. */
export function isInTotal(
  { status, network }: Pick<HistoryRow, "status" | "network">,
  { totals }: ExportSummary,
): boolean {
  return isMoneyMoved(status) && !(NETWORKS[network].isTestnet && hasRealMoney(totals));
}

/** Rows and their money by direction, in micro-USDC. */
export type Sums = { count: number; inUnits: bigint; outUnits: bigint };

/** Money in and out, by the direction of each type. Only confirmed rows count as money: others have a count but no sum, like test money beside real. */
export function sumConfirmed(totals: readonly ExportTotal[]): Sums {
  const sums = { count: 0, inUnits: 0n, outUnits: 0n };
  for (const { type, count, units } of splitTotals(totals).confirmed) {
    sums.count += count;
    sums[`${directionOf(type)}Units`] += units;
  }
  return sums;
}

/** Confirmed types show sums; all others show only a row count. */
export function presentTotal(
  total: ExportTotal,
  format = formatUnits,
): [string, string, string, string, string, string] {
  const { type, status, count } = total;
  if (!isMoneyMoved(status)) return [type, status, String(count), "", "", ""];
  return [type, status, ...presentSums(sumConfirmed([total]), format)];
}

/** Confirmed types first, then the total, then the rows excluded from it. */
export function splitTotals(totals: readonly ExportTotal[]): {
  confirmed: ExportTotal[];
  others: ExportTotal[];
  /** Of test networks, beside real money. */
  tests: ExportTotal[];
} {
  const isApart = ({ isTest }: ExportTotal) => isTest && hasRealMoney(totals);
  const shown = totals.filter((total) => !isApart(total));
  return {
    confirmed: shown.filter(({ status }) => isMoneyMoved(status)),
    others: shown.filter(({ status }) => !isMoneyMoved(status)),
    tests: totals.filter(isApart),
  };
}

/** Types and numbers of the rows of test networks. */
export function presentTests(
  tests: readonly ExportTotal[],
): [string, string, string, string, string, string][] {
  const types = [...new Set(tests.map(({ type }) => type))];
  return types.map((type) => {
    const count = tests.filter((one) => one.type === type).reduce((sum, one) => sum + one.count, 0);
    return [type, "test network", String(count), "", "", ""];
  });
}

/** Count, in, out and net as text. */
export function presentSums(
  { count, inUnits, outUnits }: Sums,
  format = formatUnits,
): [string, string, string, string] {
  return [String(count), format(inUnits), format(outUnits), format(inUnits - outUnits)];
}

/** A heading of a report's rows: confirmed rows come first, and everything else stands apart. */
export const CONFIRMED_HEADING = "Confirmed transactions";
const OTHERS_HEADING = "Not in the total: pending, failed and reorganised transactions";

export function othersHeading({ totals }: ExportSummary): string {
  return splitTotals(totals).tests.length > 0
    ? `${OTHERS_HEADING}, and those of test networks`
    : OTHERS_HEADING;
}

/** "2026-03-29 03:30:00 +02:00" */
export function readableTime(instant: Date, timeZone: string): string {
  return localTime(instant, timeZone)
    .replace("T", " ")
    .replace(/(?=[+-]\d\d:\d\d$)/, " ");
}

export const STATUS_NOTE =
  "The total is confirmed money. PENDING and DETECTED transactions may still change; FAILED and ORPHANED ones moved nothing.";
