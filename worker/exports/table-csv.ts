/** A table as CSV: RFC 4180 with decimal points and commas, or in the form that continental European spreadsheets open by double click. */
import { cellText, type TableCell, type TableColumn, type TableRow } from "../../core/domain/table.ts";
import { encodeCsv } from "./encode-csv.ts";
import { neutralizeCell } from "./neutralize-formulas.ts";
import { utf8 } from "./renderer.ts";

export type TableBatches = AsyncIterable<readonly TableRow[]>;
export type CsvStyle = {
  delimiter: "," | ";";
  decimalMark: "." | ",";
  hasByteOrderMark: boolean;
};

export const PLAIN_CSV: CsvStyle = { delimiter: ",", decimalMark: ".", hasByteOrderMark: false };
/** Semicolons and decimal commas; the byte order mark tells Excel that it is UTF-8. */
export const EXCEL_CSV: CsvStyle = { delimiter: ";", decimalMark: ",", hasByteOrderMark: true };

const BYTE_ORDER_MARK = "\ufeff";

export async function* renderTableCsv(
  columns: readonly TableColumn[],
  batches: TableBatches,
  style: CsvStyle,
): AsyncGenerator<Uint8Array> {
  const mark = style.hasByteOrderMark ? BYTE_ORDER_MARK : "";
  yield utf8(mark + encodeCsv([columns.map(({ title }) => neutralizeCell(title))], style.delimiter));
  for await (const rows of batches)
    if (rows.length > 0)
      yield utf8(
        encodeCsv(
          rows.map((row) => columns.map((column, index) => csvCell(row[index], column, style))),
          style.delimiter,
        ),
      );
}

function csvCell(cell: TableCell | undefined, { kind }: TableColumn, { decimalMark }: CsvStyle): string {
  const text = cellText(cell, kind);
  if (kind === "amount" || kind === "decimal") return text.replace(".", decimalMark);
  return kind === "text" ? neutralizeCell(text) : text;
}
