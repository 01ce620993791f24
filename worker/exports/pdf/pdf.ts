/** The report for accountants: A4 landscape, header and totals first, then every row, page numbers on every page. */
import { cellsOf, type ExportRow, type ExportSummary } from "../../../core/domain/export.ts";
import { localTime } from "../../../core/domain/local-time.ts";
import { formatGrouped, formatUnits } from "../../../core/domain/money.ts";
import { changeOf } from "../../../core/domain/statement.ts";
import type { Batches } from "../renderer.ts";
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
} from "../report-totals.ts";
import { type Column, openPage, type PdfPage } from "./page.ts";

const TOTAL_COLUMNS: readonly Column[] = [
  { title: "Type", width: 100 },
  { title: "Status", width: 90 },
  { title: "Count", width: 60, align: "right" },
  { title: "In (USDC)", width: 120, align: "right" },
  { title: "Out (USDC)", width: 120, align: "right" },
  { title: "Net (USDC)", width: 120, align: "right" },
];

/** The 66 characters of a hash fit on one line, so that it can be searched and copied as a whole. */
const rowColumns = (timeZone: string): readonly Column[] => [
  { title: timeZone === "UTC" ? "Date (UTC)" : "Local date", width: 81 },
  { title: "Type", width: 66 },
  { title: "Status", width: 54 },
  { title: "Network", width: 54 },
  { title: "Description", width: 164 },
  { title: "Transaction hash", width: 263, style: "hash" },
  { title: "Amount (USDC)", width: 87.89, align: "right" },
];

export async function* renderPdf(summary: ExportSummary, batches: Batches): AsyncGenerator<Uint8Array> {
  const page = await openPage({
    title: "Transaction report",
    author: summary.merchantName,
    createdAt: summary.generatedAt,
    layout: "landscape",
    rows: summary.rows,
  });
  await page.prepare(factsOf(summary).map(([, value]) => value));
  writeHead(page, summary);
  writeTotals(page, summary);
  page.heading(CONFIRMED_HEADING);
  page.beginTable(rowColumns(summary.timeZone));
  let isApart = false;
  for await (const rows of batches) {
    await page.prepare(rows.flatMap((row) => [row.description, row.reference ?? ""]));
    for (const row of rows) {
      if (!isApart && !isInTotal(row, summary)) {
        isApart = true;
        writeSum(page, summary);
        page.heading(othersHeading(summary));
        page.beginTable(rowColumns(summary.timeZone));
      }
      page.row(toCells(row, summary), notesOf(row, summary));
    }
    yield* page.take();
  }
  if (isApart) page.endTable();
  else writeSum(page, summary);
  yield* page.end();
}

/** Ends the table of the confirmed rows. */
function writeSum(page: PdfPage, { totals }: ExportSummary): void {
  const [count, moneyIn, moneyOut, net] = presentSums(sumConfirmed(totals), formatGrouped);
  page.sumRows([
    [
      "Total",
      "",
      "CONFIRMED",
      "",
      `${count} ${count === "1" ? "transaction" : "transactions"}`,
      `in ${moneyIn}, out ${moneyOut}, net`,
      net,
    ],
  ]);
  page.endTable();
}

function writeHead(page: PdfPage, summary: ExportSummary): void {
  page.title("Transaction report");
  for (const [name, value] of factsOf(summary)) page.fact(name, value);
}

function writeTotals(page: PdfPage, { totals }: ExportSummary): void {
  const { confirmed, others, tests } = splitTotals(totals);
  page.heading("Totals");
  page.beginTable(TOTAL_COLUMNS);
  for (const total of confirmed) page.row(presentTotal(total, formatGrouped));
  page.sumRows([["Total", "CONFIRMED", ...presentSums(sumConfirmed(totals), formatGrouped)]]);
  for (const total of others) page.row(presentTotal(total));
  for (const cells of presentTests(tests)) page.row(cells);
  page.endTable();
  page.note(STATUS_NOTE);
}

function toCells(row: ExportRow, summary: ExportSummary): string[] {
  const [, type = "", , , status = "", network = "", description = "", hash = ""] = cellsOf(row, {
    ...summary,
    profile: "standard",
  });
  const date = localTime(row.detectedAt, summary.timeZone).replace("T", " ").slice(0, 19);
  // signed, so that the confirmed rows add up to the net below them
  const amount = formatGrouped(changeOf(row));
  return [date, type, status, network, description, hash, amount];
}

/** The fields of the accounting profile, in small print below the row. */
function notesOf(row: ExportRow, summary: ExportSummary): string | undefined {
  if (summary.profile === "standard") return undefined;
  const [id = "", , payer = "", payee = "", block = "", log = "", finality = "", fee = "", link = ""] =
    cellsOf(row, summary).slice(8);
  const { kind, refundOf, feeUnits } = row;
  const where = block === "" ? finality : `block ${block}, log ${log}, ${finality}`;
  return [
    timeOf(row, summary.timeZone),
    `from ${payer} to ${payee}`,
    where,
    fee && `network fee ${fee} ETH`,
    kind === "REFUND" ? `refund of ${refundOf ?? "a transfer"}` : "",
    kind === "FEE" ? "service fee" : "",
    feeUnits ? `service fee ${formatUnits(feeUnits)} USDC` : "",
    row.reference && `reference ${row.reference}`,
    link,
    id,
  ]
    .filter(Boolean)
    .join(" · ");
}

/** The time in UTC, since the date column shows the zone's time. */
function timeOf(row: ExportRow, timeZone: string): string {
  return timeZone === "UTC" ? "" : `${row.detectedAt.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}
