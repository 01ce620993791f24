/**
 * A table as XLSX (ECMA-376, transitional): dates are dates and amounts are numbers; text stays text, whatever it starts with. Rows are
 * written as they arrive, with inline strings, so that memory holds one batch whatever the number of rows.
 */
import {
  type ColumnKind,
  cellText,
  type TableCell,
  type TableColumn,
  type TableRow,
} from "../../core/domain/table.ts";
import { type ZipFile, zip } from "./archive/zip.ts";
import { utf8 } from "./renderer.ts";
import type { TableBatches } from "./table-csv.ts";
import {
  CONTENT_TYPES,
  PACKAGE_RELATIONS,
  STYLE,
  STYLES,
  WORKBOOK_RELATIONS,
  workbook,
} from "./xlsx-parts.ts";

/** Spreadsheets store 15 digits of a number: larger amounts are written as text, to stay exact. */
const EXACT_UNITS_MAX = 999_999_999_999_999n;
const EXACT_DIGITS_MAX = 15;
/** Characters that XML 1.0 cannot represent. */
const NOT_XML = /[^\P{Cc}\t\n\r]|[\ufffe\uffff]/gu;
/** Parsed as an escaped character (ECMA-376 part 1, 22.9.2.19) unless its underscore is itself escaped. The escape of \r also starts like this. */
const NUMBERED = /_(?=x[0-9a-f]{4}[_\r])/gi;
const MARKUP = /[&<>\r]/g;
const ESCAPES: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "_x000D_" };
/** Text that needs no escaping, like nearly every cell. */
const PLAIN = /^[ -%'-;=?-^`-~]*$/;
const CELL_CHARS_MAX = 32_767;
const WIDTHS: Record<ColumnKind, number> = {
  ...{ text: 24, amount: 18, date: 12, time: 10, integer: 12, decimal: 14 },
};
/** Their cells are right-aligned, and so are their titles. */
const NUMBER_KINDS: ReadonlySet<ColumnKind> = new Set(["amount", "integer", "decimal"]);
const DAY_MS = 86_400_000;
const DAY_ZERO_MS = Date.UTC(1899, 11, 30);
const DATE = /^\d{4}-\d\d-\d\d$/;
const NUMBER = /^-?\d+(?:\.\d+)?$/;

export async function* renderTableXlsx(
  sheet: string,
  columns: readonly TableColumn[],
  batches: TableBatches,
): AsyncGenerator<Uint8Array> {
  const modifiedAt = new Date();
  async function* parts(): AsyncGenerator<ZipFile> {
    yield { name: "[Content_Types].xml", modifiedAt, bytes: utf8(CONTENT_TYPES) };
    yield { name: "_rels/.rels", modifiedAt, bytes: utf8(PACKAGE_RELATIONS) };
    yield { name: "xl/workbook.xml", modifiedAt, bytes: utf8(workbook(escapeXml(sheet))) };
    yield { name: "xl/_rels/workbook.xml.rels", modifiedAt, bytes: utf8(WORKBOOK_RELATIONS) };
    yield { name: "xl/styles.xml", modifiedAt, bytes: utf8(STYLES) };
    yield { name: "xl/worksheets/sheet1.xml", modifiedAt, pieces: writeSheet(columns, batches) };
  }
  yield* zip(parts());
}

async function* writeSheet(
  columns: readonly TableColumn[],
  batches: TableBatches,
): AsyncGenerator<Uint8Array> {
  const letters = columns.map((_, index) => lettersOf(index));
  const titles = columns.map(({ title, kind }, index) =>
    textCell(`${letters[index]}1`, title, NUMBER_KINDS.has(kind) ? STYLE.numberTitle : STYLE.title),
  );
  yield utf8(`${sheetStart(columns)}<row r="1">${titles.join("")}</row>`);
  let row = 1;
  for await (const rows of batches) {
    let xml = "";
    for (const cells of rows) {
      row += 1;
      xml += writeRow(cells, { row, columns, letters });
    }
    if (xml !== "") yield utf8(xml);
  }
  yield utf8("</sheetData></worksheet>");
}

/** The first row is frozen. */
function sheetStart(columns: readonly TableColumn[]): string {
  const widths = columns.map(({ kind, title }, index) => {
    const width = Math.max(WIDTHS[kind], title.length + 2);
    return `<col min="${index + 1}" max="${index + 1}" width="${width}" customWidth="1"/>`;
  });
  return [
    '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n',
    '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">',
    '<sheetViews><sheetView workbookViewId="0" tabSelected="1">',
    '<pane ySplit="1" topLeftCell="A2" activePane="bottomLeft" state="frozen"/></sheetView></sheetViews>',
    `<cols>${widths.join("")}</cols><sheetData>`,
  ].join("");
}

type Placed = { row: number; columns: readonly TableColumn[]; letters: readonly string[] };

function writeRow(cells: TableRow, { row, columns, letters }: Placed): string {
  let xml = `<row r="${row}">`;
  for (let index = 0; index < columns.length; index++) {
    const cell = cells[index];
    if (cell === null || cell === undefined || cell === "") continue;
    xml += writeCell(`${letters[index]}${row}`, cell, columns[index]?.kind ?? "text");
  }
  return `${xml}</row>`;
}

function writeCell(place: string, cell: NonNullable<TableCell>, kind: ColumnKind): string {
  const text = cellText(cell, kind);
  switch (kind) {
    case "amount": {
      const isExact = typeof cell === "bigint" && cell <= EXACT_UNITS_MAX && cell >= -EXACT_UNITS_MAX;
      return isExact ? numberCell(place, text, STYLE.amount) : textCell(place, text, STYLE.longNumber);
    }
    case "integer":
    case "decimal": {
      const isExact = NUMBER.test(text) && text.replace(/[-.]/g, "").length <= EXACT_DIGITS_MAX;
      const style = kind === "integer" ? STYLE.integer : STYLE.general;
      return isExact ? numberCell(place, text, style) : textCell(place, text, STYLE.longNumber);
    }
    case "date": {
      if (!DATE.test(text)) return textCell(place, text);
      return numberCell(place, String((Date.parse(text) - DAY_ZERO_MS) / DAY_MS), STYLE.date);
    }
    case "text":
    case "time":
      return textCell(place, text);
  }
}

function numberCell(place: string, number: string, style: number): string {
  return `<c r="${place}" s="${style}"><v>${number}</v></c>`;
}

function textCell(place: string, text: string, style: number = STYLE.general): string {
  return `<c r="${place}" s="${style}" t="inlineStr"><is><t xml:space="preserve">${escapeXml(text)}</t></is></c>`;
}

function escapeXml(text: string): string {
  if (text.length <= CELL_CHARS_MAX && PLAIN.test(text)) return text;
  return text
    .slice(0, CELL_CHARS_MAX)
    .toWellFormed()
    .replace(NOT_XML, " ")
    .replace(NUMBERED, "_x005F_")
    .replace(MARKUP, (sign) => ESCAPES[sign] ?? sign);
}

/** 0 is A, 26 is AA. */
function lettersOf(index: number): string {
  const last = String.fromCharCode(65 + (index % 26));
  return index < 26 ? last : lettersOf(Math.floor(index / 26) - 1) + last;
}
