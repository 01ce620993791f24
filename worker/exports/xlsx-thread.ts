/** Writes one spreadsheet in a thread of its own: it takes a second of CPU, and the process relays payments meanwhile. */
import writeXlsx, { type Cell } from "write-excel-file/node";
import { formatUnits } from "../../core/domain/money.ts";
import {
  type ColumnKind,
  cellText,
  type TableCell,
  type TableColumn,
  type TableRow,
} from "../../core/domain/table.ts";

export type ToThread =
  | { columns: readonly TableColumn[] }
  | { rows: readonly TableRow[] }
  | { sheet: string };

/** Spreadsheets hold 15 digits of a number: larger amounts are text, and exact. */
const EXACT_UNITS_MAX = 999_999_999_999_999n;
/** XML 1.0 has no way to write these. */
const NOT_XML = /[^\P{Cc}\t\n\r]|[\ufffe\uffff]/gu;
const CELL_CHARS_MAX = 32_767;
const WIDTHS: Record<ColumnKind, number> = {
  ...{ text: 24, amount: 18, date: 12, time: 10, integer: 12, decimal: 14 },
};

declare const self: Worker;

let columns: readonly TableColumn[] = [];
const data: Cell[][] = [];

self.onmessage = async ({ data: given }: MessageEvent<ToThread>) => {
  if ("columns" in given) {
    columns = given.columns;
    data.push(columns.map(({ title }) => ({ value: title, type: String, fontWeight: "bold" })));
    return;
  }
  if ("rows" in given) {
    for (const row of given.rows) data.push(columns.map((column, index) => xlsxCell(row[index], column)));
    return;
  }
  const options = {
    sheet: given.sheet,
    stickyRowsCount: 1,
    columns: columns.map(({ kind, title }) => ({ width: Math.max(WIDTHS[kind], title.length + 2) })),
  };
  self.postMessage(new Uint8Array(await writeXlsx(data, options).toBuffer()));
};

function xlsxCell(cell: TableCell | undefined, { kind }: TableColumn): Cell {
  if (cell === null || cell === undefined || cell === "") return null;
  switch (kind) {
    case "amount":
      return amountCell(cell);
    case "integer":
      return { value: Number(cell), type: Number, format: "0" };
    case "decimal":
      return { value: Number(cell), type: Number };
    case "date":
      return { value: new Date(`${cell}T00:00:00Z`), type: Date, format: "yyyy-mm-dd" };
    case "text":
    case "time":
      return textCell(cellText(cell, kind));
  }
}

function amountCell(cell: TableCell): Cell {
  if (typeof cell !== "bigint") return textCell(cell ?? "");
  const isExact = cell <= EXACT_UNITS_MAX && cell >= -EXACT_UNITS_MAX;
  if (!isExact) return textCell(formatUnits(cell));
  return { value: Number(formatUnits(cell)), type: Number, format: "#,##0.000000" };
}

function textCell(text: string): Cell {
  return { value: text.toWellFormed().replace(NOT_XML, " ").slice(0, CELL_CHARS_MAX), type: String };
}
