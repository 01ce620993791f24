/** CSV by RFC 4180: UTF-8, CRLF, quoted where needed, and no cell a spreadsheet would run as a formula. */
import { cellsOf, columnsOf, type ExportSummary } from "../../core/domain/export.ts";
import { encodeCsv } from "./encode-csv.ts";
import { type Batches, utf8 } from "./renderer.ts";

/** Spaces and invisible characters (byte order mark, zero-width space, controls) do not hide a formula: some programs strip them first. */
const FORMULA = /^(?:[\t\r\n\0]|[\s\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}]*[=+\-@＝＋－＠])/u;

export async function* renderCsv(summary: ExportSummary, batches: Batches): AsyncGenerator<Uint8Array> {
  yield utf8(encodeCsv([columnsOf(summary.profile)]));
  for await (const rows of batches)
    yield utf8(encodeCsv(rows.map((row) => cellsOf(row, summary).map(neutralizeCell))));
}

/** Prevents a spreadsheet from reading a cell as a formula: an apostrophe before = + - @ (also full-width), tab and line breaks. */
export function neutralizeCell(cell: string): string {
  return FORMULA.test(cell) ? `'${cell}` : cell;
}
