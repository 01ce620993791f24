/** CSV by RFC 4180: UTF-8, CRLF, quoted where needed, and no cell a spreadsheet would run as a formula. */
import { stringify } from "csv-stringify/sync";
import { cellsOf, columnsOf, type ExportSummary, neutralizeCell } from "../../core/domain/export.ts";
import { type Batches, utf8 } from "./renderer.ts";

export async function* renderCsv(summary: ExportSummary, batches: Batches): AsyncGenerator<Uint8Array> {
  yield utf8(toCsv([columnsOf(summary.profile)]));
  for await (const rows of batches)
    yield utf8(toCsv(rows.map((row) => cellsOf(row, summary).map(neutralizeCell))));
}

function toCsv(records: readonly (readonly string[])[]): string {
  return stringify(records as string[][], {
    record_delimiter: "\r\n",
    // a line break alone is not the record's delimiter, but it must be quoted all the same
    quoted_match: /[\r\n]/,
  });
}
