/** Page layout for tables: breaks pages, repeats table headers, wraps long text, and numbers the pages. A page's bytes are emitted when it is full. */
import PDFDocument from "pdfkit";
import { type Cell, openTags, type TagTable, taggedOptions, withoutTags } from "../../../core/pdf/tags.ts";
import { openPdfText, type PdfText, type TextStyle } from "../../../core/pdf/text.ts";

export type Column = { title: string; width: number; align?: "right"; style?: "hash" };
export type PdfPage = Awaited<ReturnType<typeof openPage>>;

const MARGIN = 36;
const A4 = { short: 595.28, long: 841.89 };
const GAP = 6;
const ROW_PADDING = 2.5;
/** More lines than 500 of the widest letters take in the narrowest column, and fewer than fit on a page. */
const CELL_LINES_MAX = 40;
const NAME_WIDTH = 80;
/** As a fraction of the page's width. */
const ASIDE_SHARE = 0.42;
const ASIDE_LINES_MAX = 3;
/** Space for the total number of pages, which is written last. */
const PAGE_COUNT_WIDTH = 16;
const PAGE_COUNT_FORM = "PageCount";
/** Every cell of a tagged table is an object in the file: with 10,000 rows it would be ten times as large and take twice the CPU time. */
const TAGGED_ROWS_MAX = 1_000;

const STYLES = {
  title: { font: "bold", size: 18, leading: 24, gray: 0.07 },
  heading: { font: "bold", size: 11, leading: 16, gray: 0.07 },
  name: { font: "bold", size: 8.5, leading: 12, gray: 0.27 },
  fact: { font: "regular", size: 8.5, leading: 12, gray: 0.07 },
  head: { font: "bold", size: 7.5, leading: 10, gray: 0.27 },
  cell: { font: "regular", size: 7.5, leading: 9.5, gray: 0.07 },
  sum: { font: "bold", size: 7.5, leading: 9.5, gray: 0.07 },
  hash: { font: "regular", size: 7, leading: 9.5, gray: 0.2 },
  note: { font: "regular", size: 7, leading: 8.8, gray: 0.3 },
  foot: { font: "regular", size: 7, leading: 9, gray: 0.4 },
} as const satisfies Record<string, TextStyle>;

/** Row height with a two-line cell. */
const SUM_ROW_HEIGHT = 2 * STYLES.sum.leading + 3 * ROW_PADDING;

export type PageAbout = {
  title: string;
  author: string;
  createdAt: Date;
  layout: "landscape" | "portrait";
  /** Rows of its tables; tagged only if there are few. */
  rows: number;
};

export async function openPage(about: PageAbout) {
  const isWide = about.layout === "landscape";
  const page = { width: isWide ? A4.long : A4.short, height: isWide ? A4.short : A4.long };
  const pageWidth = page.width - 2 * MARGIN;
  const bottom = page.height - MARGIN - 16;
  const footY = page.height - MARGIN - 6;
  const isTagged = about.rows <= TAGGED_ROWS_MAX;
  const doc = new PDFDocument({
    ...(isTagged ? taggedOptions("en") : {}),
    size: "A4",
    layout: about.layout,
    margin: MARGIN,
    info: { Title: about.title, Author: about.author, CreationDate: about.createdAt },
  });
  const pieces: Uint8Array[] = [];
  doc.on("data", (piece: Uint8Array) => pieces.push(piece));
  const ended = new Promise<void>((resolve) => doc.on("end", resolve));
  const text = await openPdfText(doc);
  const tags = isTagged ? openTags(doc, text.flush) : withoutTags();
  const pageCount = text.newForm(STYLES.foot);
  await text.prepare([about.author]);
  let pages = 1;
  let y = MARGIN;
  let asideBottom = MARGIN;
  let columns: readonly Column[] = [];
  let table: TagTable | undefined;

  function need(height: number): void {
    if (y + height <= bottom) return;
    tags.artifact(writeFoot);
    doc.addPage();
    pages += 1;
    y = MARGIN;
    // read aloud once, at the start of the table
    if (columns.length > 0)
      tags.artifact(() => {
        writeHead((titles) => {
          for (const [, draw] of titles) draw();
        });
        writeHeadRule();
      });
  }

  function writeFoot(): void {
    const [owner = ""] = text.wrap(`${about.title} · ${about.author}`, STYLES.foot, pageWidth / 2, 1);
    text.line(owner, STYLES.foot, { x: MARGIN, y: footY, width: pageWidth / 2 });
    const width = pageWidth - PAGE_COUNT_WIDTH;
    text.line(`Page ${pages} of `, STYLES.foot, { x: MARGIN, y: footY, width, align: "right" });
    text.form(pageCount, PAGE_COUNT_FORM, STYLES.foot, { x: MARGIN + width, y: footY });
    text.flush();
  }

  function writeHead(write: (titles: readonly Cell[]) => void): void {
    let x = MARGIN;
    const titles = columns.map((column, index): Cell => {
      const place = { x, y, width: innerWidth(columns, index), align: column.align };
      x += column.width;
      return ["TH", () => text.line(column.title, STYLES.head, place), { scope: "Column" }];
    });
    write(titles);
    y += STYLES.head.leading + 2;
  }

  function writeHeadRule(): void {
    text.rule(MARGIN, y, widthOf(columns), { thickness: 0.7, gray: 0.27 });
    y += ROW_PADDING;
  }

  function writeRow(cells: readonly string[], style: TextStyle, note: string | undefined): void {
    const wrapped = columns.map((column, index) => {
      const cellStyle = column.style === "hash" && style === STYLES.cell ? STYLES.hash : style;
      const width = innerWidth(columns, index);
      const lines = text.wrap(cells[index] ?? "", cellStyle, width, CELL_LINES_MAX);
      return { column, style: cellStyle, lines, width };
    });
    const notes = note ? text.wrap(note, STYLES.note, widthOf(columns) - GAP, CELL_LINES_MAX) : [];
    const height = Math.max(...wrapped.map((cell) => cell.lines.length * cell.style.leading));
    const notesHeight = notes.length * STYLES.note.leading;
    need(height + notesHeight + ROW_PADDING * 2);
    let x = MARGIN;
    const drawn = wrapped.map((cell): Cell => {
      const place = { x, y, width: cell.width, align: cell.column.align };
      x += cell.column.width;
      return ["TD", () => writeLines(text, cell, place)];
    });
    table?.row(drawn);
    y += height;
    if (notes.length > 0) {
      const place = { x: MARGIN, y, width: widthOf(columns) - GAP };
      const draw = () => writeLines(text, { style: STYLES.note, lines: notes }, place);
      table?.row([["TD", draw, { columns: columns.length }]]);
    }
    y += notesHeight + ROW_PADDING;
    tags.artifact(() => text.rule(MARGIN, y, widthOf(columns), { thickness: 0.25, gray: 0.8 }));
    y += ROW_PADDING;
    text.flush();
  }

  return {
    /** Call with every text that may contain non-Latin characters before it is written. */
    prepare: text.prepare,
    title(words: string): void {
      tags.block("H1", () => text.line(words, STYLES.title, { x: MARGIN, y, width: pageWidth }));
      y += STYLES.title.leading;
    },
    heading(words: string): void {
      need(STYLES.heading.leading + 60);
      y += 10;
      tags.block("H2", () => text.line(words, STYLES.heading, { x: MARGIN, y, width: pageWidth }));
      y += STYLES.heading.leading;
    },
    /** Lines at the right of the header, such as the issuer; returns to the starting position. */
    aside(lines: readonly string[]): void {
      const width = pageWidth * ASIDE_SHARE;
      const place = { x: MARGIN + pageWidth - width, width, align: "right" } as const;
      let asideY = MARGIN;
      for (const [index, words] of lines.entries()) {
        const style = index === 0 ? STYLES.name : STYLES.fact;
        for (const part of text.wrap(words, style, width, ASIDE_LINES_MAX)) {
          tags.block("P", () => text.line(part, style, { ...place, y: asideY }));
          asideY += style.leading;
        }
      }
      asideBottom = asideY;
    },
    /** Continues below the lines at the right. */
    belowAside(): void {
      y = Math.max(y, asideBottom);
    },
    fact(name: string, value: string): void {
      const width = pageWidth - NAME_WIDTH;
      const lines = text.wrap(value, STYLES.fact, width, CELL_LINES_MAX);
      need(lines.length * STYLES.fact.leading);
      tags.block("P", () => text.line(name, STYLES.name, { x: MARGIN, y, width: NAME_WIDTH }));
      const place = { x: MARGIN + NAME_WIDTH, y, width };
      tags.block("P", () => writeLines(text, { style: STYLES.fact, lines }, place));
      y += lines.length * STYLES.fact.leading;
    },
    /** A sentence in small print. */
    note(words: string): void {
      const lines = text.wrap(words, STYLES.note, pageWidth, CELL_LINES_MAX);
      need(lines.length * STYLES.note.leading);
      const place = { x: MARGIN, y, width: pageWidth };
      tags.block("P", () => writeLines(text, { style: STYLES.note, lines }, place));
      y += lines.length * STYLES.note.leading;
    },
    beginTable(given: readonly Column[]): void {
      columns = given;
      table = tags.openTable();
      writeHead(table.row);
      tags.artifact(writeHeadRule);
    },
    row: (cells: readonly string[], note?: string): void => writeRow(cells, STYLES.cell, note),
    /** Rows in bold that stay together on a page. */
    sumRows(rows: readonly (readonly string[])[]): void {
      need(rows.length * SUM_ROW_HEIGHT);
      for (const cells of rows) writeRow(cells, STYLES.sum, undefined);
    },
    endTable(): void {
      columns = [];
      table?.end();
      table = undefined;
    },
    /** The bytes of full pages. */
    take(): Uint8Array[] {
      return pieces.splice(0);
    },
    /** Writes the note about characters that could not be shown and the number of pages, and returns the rest of the file. */
    async *end(): AsyncGenerator<Uint8Array> {
      const missing = text.missingCount();
      if (missing > 0) {
        need(30);
        y += 8;
        const remark = `[U+…] is the code point of a character that this report has no font for (${missing} in total). CSV and JSON exports contain every character.`;
        tags.block("P", () => text.line(remark, STYLES.note, { x: MARGIN, y, width: pageWidth }));
      }
      tags.artifact(writeFoot);
      tags.end();
      text.fillForm(pageCount, String(pages), STYLES.foot);
      doc.end();
      await ended;
      yield* pieces.splice(0);
    },
  };
}

function writeLines(
  text: PdfText,
  cell: { style: TextStyle; lines: readonly string[] },
  place: { x: number; y: number; width: number; align?: "right" | undefined },
): void {
  for (const [index, line] of cell.lines.entries())
    text.line(line, cell.style, { ...place, y: place.y + index * cell.style.leading });
}

/** A column's width without the gap to the next one; the last column reaches the table's edge. */
function innerWidth(columns: readonly Column[], index: number): number {
  return (columns[index]?.width ?? 0) - (index === columns.length - 1 ? 0 : GAP);
}

function widthOf(columns: readonly Column[]): number {
  return columns.reduce((sum, column) => sum + column.width, 0);
}
