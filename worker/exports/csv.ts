/** CSV as in RFC 4180: UTF-8, CRLF, quoted where needed, with no cell that a spreadsheet would execute as a formula. */
import { cellsOf, columnsOf, type ExportSummary } from "../../core/domain/export.ts";
import { encodeCsv } from "./encode-csv.ts";
import { neutralizeCell } from "./neutralize-formulas.ts";
import { type Batches, utf8 } from "./renderer.ts";

export async function* renderCsv(summary: ExportSummary, batches: Batches): AsyncGenerator<Uint8Array> {
  yield utf8(encodeCsv([columnsOf(summary.profile)]));
  for await (const rows of batches)
    yield utf8(encodeCsv(rows.map((row) => cellsOf(row, summary).map(neutralizeCell))));
}
