/** Rows for bookkeeping in each format that imports take. */
import { booksCells, booksColumns } from "../../core/domain/books.ts";
import type { ExportFormat, ExportSummary } from "../../core/domain/export.ts";
import { cellText } from "../../core/domain/table.ts";
import { type Batches, type Renderer, utf8 } from "./renderer.ts";
import { EXCEL_CSV, PLAIN_CSV, renderTableCsv, type TableBatches } from "./table-csv.ts";
import { renderTableXlsx } from "./table-xlsx.ts";

export const BOOKS_RENDERERS: Partial<Record<ExportFormat, Renderer>> = {
  csv: (summary, batches) => renderTableCsv(booksColumns(summary), rowsOf(summary, batches), PLAIN_CSV),
  excel_csv: (summary, batches) => renderTableCsv(booksColumns(summary), rowsOf(summary, batches), EXCEL_CSV),
  xlsx: (summary, batches) => renderTableXlsx("Books", booksColumns(summary), rowsOf(summary, batches)),
  json: renderJson,
};

async function* rowsOf(summary: ExportSummary, batches: Batches): TableBatches {
  for await (const rows of batches) yield rows.map((row) => booksCells(row, summary));
}

/** An array of objects, a row a line; amounts are decimal text. */
async function* renderJson(summary: ExportSummary, batches: Batches): AsyncGenerator<Uint8Array> {
  const columns = booksColumns(summary);
  yield utf8("[");
  let separator = "\n";
  for await (const rows of rowsOf(summary, batches)) {
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
