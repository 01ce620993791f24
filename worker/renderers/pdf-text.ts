/**
 * Text on a PDF. Standard fonts carry Latin text; whatever they lack is set in DejaVu Sans, embedded. A character neither
 * has becomes □ and is counted, so that the report can say so: nothing is dropped in silence.
 */
import { fileURLToPath } from "node:url";

export type TextStyle = { font: "regular" | "bold" | "code"; size: number; leading: number; color: string };
export type Place = { x: number; y: number; width: number; align?: "right" | undefined };
export type PdfText = Awaited<ReturnType<typeof openPdfText>>;

const STANDARD = { regular: "Helvetica", bold: "Helvetica-Bold", code: "Courier" } as const;
const WIDE = { regular: "Wide", bold: "Wide-Bold", code: "Wide" } as const;
const WIDE_FILES = { Wide: "DejaVuSans.ttf", "Wide-Bold": "DejaVuSans-Bold.ttf" } as const;
/** Characters of WinAnsi, the encoding of the standard fonts. */
const WIN_ANSI = /^[\x20-\x7e\xa0-\xff\u2013\u2014\u2018\u2019\u201c\u201d\u2022\u2026\u20ac\u2122]*$/;
const MISSING = "□";
/** Height of letters above the line, in parts of the size. */
const ASCENT = 0.78;
const ELLIPSIS = "…";

export async function openPdfText(doc: PDFKit.PDFDocument) {
  for (const [name, file] of Object.entries(WIDE_FILES)) doc.registerFont(name, await readFont(file));
  let missing = 0;
  let isMeasuring = { font: "", size: 0 };

  function choose(text: string, style: TextStyle): void {
    const font = WIN_ANSI.test(text) ? STANDARD[style.font] : WIDE[style.font];
    if (isMeasuring.font === font && isMeasuring.size === style.size) return;
    doc.font(font).fontSize(style.size);
    isMeasuring = { font, size: style.size };
  }

  function widthOf(text: string, style: TextStyle): number {
    choose(text, style);
    return doc.widthOfString(text);
  }

  /** Control characters become spaces, characters no font has become □. */
  function showable(text: string): string {
    const plain = text.replace(/[\p{Cc}\u2028\u2029]+/gu, " ");
    if (WIN_ANSI.test(plain)) return plain;
    doc.font(WIDE.regular);
    isMeasuring = { font: "", size: 0 };
    const covers = coverageOf(doc);
    return Array.from(plain, (character) => {
      const code = character.codePointAt(0) ?? 0;
      if (covers(code)) return character;
      if (isInvisible(character)) return "";
      missing += 1;
      return MISSING;
    }).join("");
  }

  function wrap(given: string, style: TextStyle, width: number, linesMax: number): string[] {
    const text = showable(given).trimEnd();
    if (widthOf(text, style) <= width) return [text];
    const lines: string[] = [];
    let rest = text;
    while (rest !== "" && lines.length < linesMax) {
      const line = takeLine(rest, (part) => widthOf(part, style) <= width);
      lines.push(line.trimEnd());
      rest = rest.slice(line.length).trimStart();
    }
    if (rest !== "") lines[lines.length - 1] = `${lines.at(-1)?.slice(0, -1) ?? ""}${ELLIPSIS}`;
    return lines;
  }

  function line(text: string, style: TextStyle, { x, y, width, align }: Place): void {
    if (text === "") return;
    const shown = WIN_ANSI.test(text) ? text : showable(text);
    choose(shown, style);
    const left = align === "right" ? x + width - doc.widthOfString(shown) : x;
    // the fonts' letters stand on one line whatever their heights are
    doc
      .fillColor(style.color)
      .text(shown, left, y + style.size * ASCENT, { lineBreak: false, baseline: "alphabetic" });
  }

  function remark(): string | undefined {
    if (missing === 0) return undefined;
    return `${MISSING} stands for a character this report has no letter for (${missing} in all). The CSV and JSON exports hold every character.`;
  }

  return { wrap, line, remark };
}

/** The longest beginning that fits, cut at a space where there is one in its second half. At least one character. */
function takeLine(text: string, fits: (part: string) => boolean): string {
  let low = 1;
  let high = text.length;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (fits(text.slice(0, middle))) low = middle;
    else high = middle - 1;
  }
  if (low === text.length) return text;
  // never cut a surrogate pair in half
  const whole = /[\ud800-\udbff]/.test(text[low - 1] ?? "") && low > 1 ? low - 1 : low;
  const space = text.lastIndexOf(" ", whole);
  return text.slice(0, space > whole / 2 ? space + 1 : whole);
}

/** Joiners, variation selectors and direction marks have no shape of their own. */
function isInvisible(character: string): boolean {
  return /[\p{Cf}\p{Mn}]/u.test(character);
}

/** pdfkit keeps the opened font in a field its types leave out. */
function coverageOf(doc: PDFKit.PDFDocument): (codePoint: number) => boolean {
  const { font } = (doc as unknown as { _font: { font: { hasGlyphForCodePoint(code: number): boolean } } })
    ._font;
  return (codePoint) => font.hasGlyphForCodePoint(codePoint);
}

const fonts = new Map<string, Promise<Buffer>>();

function readFont(file: string): Promise<Buffer> {
  let font = fonts.get(file);
  if (!font) {
    const path = fileURLToPath(import.meta.resolve(`dejavu-fonts-ttf/ttf/${file}`));
    font = Bun.file(path).arrayBuffer().then(Buffer.from);
    fonts.set(file, font);
  }
  return font;
}
