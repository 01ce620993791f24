/** The plain-text report: the filter, totals, then one line per row in columns; unconfirmed rows are listed separately. */
import { cellsOf, columnsOf, type ExportRow, type ExportSummary } from "../../core/domain/export.ts";
import { type Batches, utf8 } from "./renderer.ts";
import {
  CONFIRMED_HEADING,
  factsOf,
  isInTotal,
  othersHeading,
  presentSums,
  presentTests,
  presentTotal,
  STATUS_NOTE,
  splitTotals,
  sumConfirmed,
} from "./report-totals.ts";

/** Widths of the standard columns; longer text shifts the rest of its line. Amounts are right-aligned. */
const WIDTHS = [24, 12, 20, 8, 9, 12, 40, 66];
const AMOUNT_COLUMN = 2;
const RULE = "-".repeat(100);
const TOTAL_WIDTH = 24;

export async function* renderText(summary: ExportSummary, batches: Batches): AsyncGenerator<Uint8Array> {
  yield utf8(`${[...headLines(summary), "", ...totalLines(summary), ""].join("\n")}\n`);
  yield utf8(tableHead(CONFIRMED_HEADING, summary));
  let isApart = false;
  for await (const rows of batches) {
    const apart = rows.findIndex((row) => !isInTotal(row, summary));
    const confirmed = isApart || apart === 0 ? [] : rows.slice(0, apart < 0 ? rows.length : apart);
    const others = rows.slice(confirmed.length);
    if (confirmed.length > 0) yield utf8(toLines(confirmed, summary));
    if (others.length === 0) continue;
    if (!isApart) yield utf8(`${sumLine(summary)}\n\n${tableHead(othersHeading(summary), summary)}`);
    isApart = true;
    yield utf8(toLines(others, summary));
  }
  yield utf8(isApart ? `${RULE}\n` : `${sumLine(summary)}\n`);
}

function tableHead(heading: string, summary: ExportSummary): string {
  return `${heading.toUpperCase()}\n${toLine(columnsOf(summary.profile))}\n${RULE}\n`;
}

function toLines(rows: readonly ExportRow[], summary: ExportSummary): string {
  return `${rows.map((row) => toLine(cellsOf(row, summary))).join("\n")}\n`;
}

function headLines(summary: ExportSummary): string[] {
  const facts = factsOf(summary).map(([name, value]) => `${`${name}:`.padEnd(14)}${oneLine(value)}`);
  return ["TRANSACTION REPORT", "=".repeat(18), "", ...facts];
}

function totalLines({ totals }: ExportSummary): string[] {
  const line = (type: string, status: string, count: string, ...amounts: string[]) =>
    `${type.padEnd(14)}${status.padEnd(12)}${count.padStart(8)}${amounts.map((amount) => amount.padStart(TOTAL_WIDTH)).join("")}`.trimEnd();
  const { confirmed, others, tests } = splitTotals(totals);
  const apart = [...others.map((total) => presentTotal(total)), ...presentTests(tests)];
  return [
    "TOTALS (USDC)",
    line("Type", "Status", "Count", "In", "Out", "Net"),
    ...confirmed.map((total) => line(...presentTotal(total))),
    line("Total", "CONFIRMED", ...presentSums(sumConfirmed(totals))),
    ...(apart.length > 0 ? ["", "NOT IN THE TOTAL", ...apart.map((cells) => line(...cells))] : []),
    "",
    STATUS_NOTE,
  ];
}

/** The sum below the confirmed rows. */
function sumLine({ totals }: ExportSummary): string {
  const [count, moneyIn, moneyOut, net] = presentSums(sumConfirmed(totals));
  return `${RULE}\nTotal of ${count} confirmed ${count === "1" ? "transaction" : "transactions"}: in ${moneyIn}, out ${moneyOut}, net ${net} USDC`;
}

function toLine(cells: readonly string[]): string {
  const padded = cells.map((cell, index) => {
    const width = WIDTHS[index] ?? 0;
    return index === AMOUNT_COLUMN ? oneLine(cell).padStart(width) : oneLine(cell).padEnd(width);
  });
  return padded.join("  ").trimEnd();
}

/** Text that cannot start a new line. */
function oneLine(text: string): string {
  return text.replace(/[\p{Cc}\u2028\u2029]+/gu, " ");
}
