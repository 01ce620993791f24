/** The simple text report: what was asked for, totals, then a line a row in columns. */
import { cellsOf, columnsOf, type ExportSummary } from "../../core/domain/export.ts";
import { formatUnits } from "../../core/domain/money.ts";
import { type Batches, utf8 } from "./renderer.ts";
import { factsOf, presentSums, STATUS_NOTE, sumConfirmed, sumTotals } from "./report-summary.ts";

/** Widths of the standard columns; what is longer pushes its own line. Amounts are right-aligned. */
const WIDTHS = [24, 12, 20, 8, 9, 12, 40, 66];
const AMOUNT_COLUMN = 2;
const RULE = "-".repeat(100);
const TOTAL_WIDTH = 24;

export async function* renderText(summary: ExportSummary, batches: Batches): AsyncGenerator<Uint8Array> {
  yield utf8(`${[...headLines(summary), "", ...totalLines(summary), "", "TRANSACTIONS"].join("\n")}\n`);
  yield utf8(`${toLine(columnsOf(summary.profile))}\n${RULE}\n`);
  for await (const rows of batches)
    if (rows.length > 0) yield utf8(`${rows.map((row) => toLine(cellsOf(row, summary))).join("\n")}\n`);
  yield utf8(`${[RULE, ...sumLines(summary)].join("\n")}\n`);
}

function headLines(summary: ExportSummary): string[] {
  const facts = factsOf(summary).map(([name, value]) => `${`${name}:`.padEnd(14)}${oneLine(value)}`);
  return ["TRANSACTION REPORT", "=".repeat(18), "", ...facts];
}

function totalLines({ totals }: ExportSummary): string[] {
  const line = (type: string, status: string, count: string, ...amounts: string[]) =>
    `${type.padEnd(14)}${status.padEnd(12)}${count.padStart(8)}${amounts.map((amount) => amount.padStart(TOTAL_WIDTH)).join("")}`;
  return [
    "TOTALS (USDC)",
    line("Type", "Status", "Count", "In", "Out", "Net"),
    ...totals.map((total) => line(total.type, total.status, ...presentSums(sumTotals([total])))),
    line("All", "", ...presentSums(sumTotals(totals))),
    line("All", "CONFIRMED", ...presentSums(sumConfirmed(totals))),
    "",
    STATUS_NOTE,
  ];
}

/** Below the rows: their sum, and the sum of what is final. */
function sumLines({ totals }: ExportSummary): string[] {
  const { count, inUnits, outUnits } = sumTotals(totals);
  const [confirmed, moneyIn, moneyOut, net] = presentSums(sumConfirmed(totals));
  return [
    `Total of ${count} transactions: ${formatUnits(inUnits + outUnits)} USDC`,
    `Confirmed, ${confirmed} of them: in ${moneyIn}, out ${moneyOut}, net ${net} USDC`,
  ];
}

function toLine(cells: readonly string[]): string {
  const padded = cells.map((cell, index) => {
    const width = WIDTHS[index] ?? 0;
    return index === AMOUNT_COLUMN ? oneLine(cell).padStart(width) : oneLine(cell).padEnd(width);
  });
  return padded.join("  ").trimEnd();
}

/** A text that cannot begin a line of its own. */
function oneLine(text: string): string {
  return text.replace(/[\p{Cc}\u2028\u2029]+/gu, " ");
}
