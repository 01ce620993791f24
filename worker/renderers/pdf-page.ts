/** A paper to write tables on: breaks pages, repeats table heads, wraps long text, and numbers the pages at the end. */
import PDFDocument from "pdfkit";
import { openPdfText, type PdfText, type TextStyle } from "./pdf-text.ts";

export type Column = { title: string; width: number; align?: "right"; style?: "code" };
export type PdfPage = Awaited<ReturnType<typeof openPage>>;

const MARGIN = 36;
const PAGE = { width: 841.89, height: 595.28 };
const BOTTOM = PAGE.height - MARGIN - 16;
const GAP = 6;
const ROW_PADDING = 2.5;
const CELL_LINES_MAX = 12;
const NAME_WIDTH = 80;

const STYLES = {
  title: { font: "bold", size: 18, leading: 24, color: "#111111" },
  heading: { font: "bold", size: 11, leading: 16, color: "#111111" },
  name: { font: "bold", size: 8.5, leading: 12, color: "#444444" },
  fact: { font: "regular", size: 8.5, leading: 12, color: "#111111" },
  head: { font: "bold", size: 7.5, leading: 10, color: "#444444" },
  cell: { font: "regular", size: 7.5, leading: 9.5, color: "#111111" },
  sum: { font: "bold", size: 7.5, leading: 9.5, color: "#111111" },
  code: { font: "code", size: 6, leading: 7.5, color: "#333333" },
  note: { font: "regular", size: 6, leading: 7.5, color: "#666666" },
  foot: { font: "regular", size: 7, leading: 9, color: "#666666" },
} as const satisfies Record<string, TextStyle>;

export async function openPage(about: { title: string; author: string; createdAt: Date }) {
  const doc = new PDFDocument({
    size: "A4",
    layout: "landscape",
    margin: MARGIN,
    bufferPages: true,
    info: { Title: about.title, Author: about.author, CreationDate: about.createdAt },
  });
  const pieces: Uint8Array[] = [];
  doc.on("data", (piece: Uint8Array) => pieces.push(piece));
  const ended = new Promise<void>((resolve) => doc.on("end", resolve));
  const text = await openPdfText(doc);
  let y = MARGIN;
  let columns: readonly Column[] = [];

  function need(height: number): void {
    if (y + height <= BOTTOM) return;
    doc.addPage();
    y = MARGIN;
    if (columns.length > 0) writeHead();
  }

  function writeHead(): void {
    let x = MARGIN;
    for (const column of columns) {
      text.line(column.title, STYLES.head, { x, y, width: column.width - GAP, align: column.align });
      x += column.width;
    }
    y += STYLES.head.leading + 2;
    doc.moveTo(MARGIN, y).lineTo(x, y).lineWidth(0.7).strokeColor("#444444").stroke();
    y += ROW_PADDING;
  }

  function writeRow(cells: readonly string[], style: TextStyle, note: string | undefined): void {
    const wrapped = columns.map((column, index) => {
      const cellStyle = column.style === "code" ? STYLES.code : style;
      return {
        style: cellStyle,
        lines: text.wrap(cells[index] ?? "", cellStyle, column.width - GAP, CELL_LINES_MAX),
      };
    });
    const notes = note ? text.wrap(note, STYLES.note, widthOf(columns) - GAP, CELL_LINES_MAX) : [];
    const height = Math.max(...wrapped.map((cell) => cell.lines.length * cell.style.leading));
    const notesHeight = notes.length * STYLES.note.leading;
    need(height + notesHeight + ROW_PADDING * 2);
    let x = MARGIN;
    for (const [index, column] of columns.entries()) {
      const cell = wrapped[index];
      if (cell) writeLines(text, cell, { x, y, width: column.width - GAP, align: column.align });
      x += column.width;
    }
    y += height;
    writeLines(text, { style: STYLES.note, lines: notes }, { x: MARGIN, y, width: widthOf(columns) - GAP });
    y += notesHeight + ROW_PADDING;
    doc.moveTo(MARGIN, y).lineTo(x, y).lineWidth(0.25).strokeColor("#cccccc").stroke();
    y += ROW_PADDING;
  }

  function writeFooters(): void {
    const { start, count } = doc.bufferedPageRange();
    for (let index = start; index < start + count; index++) {
      doc.switchToPage(index);
      const place = { x: MARGIN, y: PAGE.height - MARGIN - 6, width: PAGE.width - 2 * MARGIN };
      text.line(`${about.title} · ${about.author}`, STYLES.foot, place);
      text.line(`Page ${index - start + 1} of ${count}`, STYLES.foot, { ...place, align: "right" });
    }
  }

  return {
    title(words: string): void {
      text.line(words, STYLES.title, { x: MARGIN, y, width: PAGE.width - 2 * MARGIN });
      y += STYLES.title.leading;
    },
    heading(words: string): void {
      need(STYLES.heading.leading + 60);
      y += 10;
      text.line(words, STYLES.heading, { x: MARGIN, y, width: PAGE.width - 2 * MARGIN });
      y += STYLES.heading.leading;
    },
    fact(name: string, value: string): void {
      const width = PAGE.width - 2 * MARGIN - NAME_WIDTH;
      const lines = text.wrap(value, STYLES.fact, width, CELL_LINES_MAX);
      need(lines.length * STYLES.fact.leading);
      text.line(name, STYLES.name, { x: MARGIN, y, width: NAME_WIDTH });
      writeLines(text, { style: STYLES.fact, lines }, { x: MARGIN + NAME_WIDTH, y, width });
      y += lines.length * STYLES.fact.leading;
    },
    beginTable(given: readonly Column[]): void {
      columns = given;
      writeHead();
    },
    row: (cells: readonly string[], note?: string): void => writeRow(cells, STYLES.cell, note),
    sumRow: (cells: readonly string[]): void => writeRow(cells, STYLES.sum, undefined),
    endTable(): void {
      columns = [];
    },
    /** The bytes that are ready. */
    take(): Uint8Array[] {
      return pieces.splice(0);
    },
    /** Writes the remark on characters that could not be shown and the page numbers, and gives the rest of the file. */
    async *end(): AsyncGenerator<Uint8Array> {
      const remark = text.remark();
      if (remark) {
        need(30);
        y += 8;
        text.line(remark, STYLES.note, { x: MARGIN, y, width: PAGE.width - 2 * MARGIN });
      }
      writeFooters();
      doc.flushPages();
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

function widthOf(columns: readonly Column[]): number {
  return columns.reduce((sum, column) => sum + column.width, 0);
}
