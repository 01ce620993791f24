/** Bookkeeping rows in each import format. */
import { chosenBooks } from "../../core/domain/bookkeeping-rows.ts";
import type { ExportFormat, ExportRow, ExportSummary } from "../../core/domain/export.ts";
import { cellText, type TableRow } from "../../core/domain/table.ts";
import { renderQuickBooks, renderXero } from "./importers/bank-csv.ts";
import { renderDatev } from "./importers/datev.ts";
import { type Batches, type Renderer, utf8 } from "./renderer.ts";
import { type CsvStyle, EXCEL_CSV, PLAIN_CSV, renderTableCsv, type TableBatches } from "./table-csv.ts";
import { renderTableXlsx } from "./table-xlsx.ts";

export const BOOKS_RENDERERS: Partial<Record<ExportFormat, Renderer>> = {
  csv: (summary, batches) => renderCsv(summary, batches, PLAIN_CSV),
  excel_csv: (summary, batches) => renderCsv(summary, batches, EXCEL_CSV),
  xlsx: renderXlsx,
  json: renderJson,
  xero_csv: renderXero,
  quickbooks_csv: renderQuickBooks,
  datev: renderDatev,
};

function renderCsv(summary: ExportSummary, batches: Batches, style: CsvStyle): AsyncGenerator<Uint8Array> {
  const { columns, cellsOf } = chosenBooks(summary, summary.columns);
  return renderTableCsv(columns, rowsOf(cellsOf, batches), style);
}

function renderXlsx(summary: ExportSummary, batches: Batches): AsyncGenerator<Uint8Array> {
  const { columns, cellsOf } = chosenBooks(summary, summary.columns);
  return renderTableXlsx("Books", columns, rowsOf(cellsOf, batches));
}

async function* rowsOf(cellsOf: (row: ExportRow) => TableRow, batches: Batches): TableBatches {
  for await (const rows of batches) yield rows.map(cellsOf);
}

/** An array of objects, one row per line; amounts are decimal text. */
async function* renderJson(summary: ExportSummary, batches: Batches): AsyncGenerator<Uint8Array> {
  const { columns, cellsOf } = chosenBooks(summary, summary.columns);
  yield utf8("[");
  let separator = "\n";
  for await (const rows of rowsOf(cellsOf, batches)) {
    if (rows.length === 0) continue;
    const texts = rows.map((row) =>
      JSON.stringify(
        Object.fromEntries(columns.map(({ key, kind }, index) => [key, cellText(row[index], kind)])),
      ),
    );
    yield utf8(separator + texts.join(",\n"));
    separator = ",\n";
  }
  yield utf8("\n]\n");
}
