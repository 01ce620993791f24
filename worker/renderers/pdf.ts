/** The report an accountant files: A4 landscape, header and totals first, then every row, page numbers on every page. */
import { cellsOf, type ExportRow, type ExportSummary } from "../../core/domain/export.ts";
import { formatUnits } from "../../core/domain/money.ts";
import { factsOf, sumTotals } from "./facts.ts";
import { type Column, openPage, type PdfPage } from "./pdf-page.ts";
import type { Batches } from "./renderer.ts";

const ROW_COLUMNS: readonly Column[] = [
  { title: "Date (UTC)", width: 84 },
  { title: "Type", width: 68 },
  { title: "Status", width: 56 },
  { title: "Network", width: 58 },
  { title: "Description", width: 205 },
  { title: "Transaction hash", width: 213, style: "code" },
  { title: "Amount (USDC)", width: 86, align: "right" },
];
const TOTAL_COLUMNS: readonly Column[] = [
  { title: "Type", width: 100 },
  { title: "Status", width: 100 },
  { title: "Count", width: 70, align: "right" },
  { title: "Amount (USDC)", width: 140, align: "right" },
];

export async function* renderPdf(summary: ExportSummary, batches: Batches): AsyncGenerator<Uint8Array> {
  const page = await openPage({
    title: "Transaction report",
    author: summary.merchantName,
    createdAt: summary.generatedAt,
  });
  await page.prepare(factsOf(summary).map(([, value]) => value));
  writeHead(page, summary);
  writeTotals(page, summary);
  page.heading("Transactions");
  page.beginTable(ROW_COLUMNS);
  let sumUnits = 0n;
  let count = 0;
  for await (const rows of batches) {
    await page.prepare(rows.map((row) => row.description));
    for (const row of rows) {
      page.row(toCells(row, summary), notesOf(row, summary));
      sumUnits += row.amountUnits;
      count += 1;
    }
    yield* page.take();
  }
  page.sumRow(["Total", "", "", "", `${count} transactions`, "", formatUnits(sumUnits)]);
  page.endTable();
  yield* page.end();
}

function writeHead(page: PdfPage, summary: ExportSummary): void {
  page.title("Transaction report");
  for (const [name, value] of factsOf(summary)) page.fact(name, value);
}

function writeTotals(page: PdfPage, summary: ExportSummary): void {
  const all = sumTotals(summary.totals);
  page.heading("Totals by type and status");
  page.beginTable(TOTAL_COLUMNS);
  for (const total of summary.totals)
    page.row([total.type, total.status, String(total.count), formatUnits(total.units)]);
  page.sumRow(["All", "", String(all.count), formatUnits(all.units)]);
  page.endTable();
}

function toCells(row: ExportRow, summary: ExportSummary): string[] {
  const [date = "", type = "", amount = "", , status = "", network = "", description = "", hash = ""] =
    cellsOf(row, { ...summary, profile: "standard" });
  return [date.replace("T", " ").slice(0, 19), type, status, network, description, hash, amount];
}

/** The accounting profile's facts, in small print below the row. */
function notesOf(row: ExportRow, summary: ExportSummary): string | undefined {
  if (summary.profile === "standard") return undefined;
  const [
    id = "",
    local = "",
    payer = "",
    payee = "",
    block = "",
    log = "",
    finality = "",
    fee = "",
    link = "",
  ] = cellsOf(row, summary).slice(8);
  const where = block === "" ? finality : `block ${block}, log ${log}, ${finality}`;
  return [local, `from ${payer} to ${payee}`, where, fee && `network fee ${fee} ETH`, link, id]
    .filter((part) => part !== "")
    .join(" · ");
}
