/**
 * Text and rules on a PDF's pages. Latin text is written in the standard fonts as page operators (PDF 32000-1, 9.4): pdfkit's own
 * way kerns every pair of letters, which is most of the time a table of 10,000 rows takes. Other letters are set by pdfkit in
 * embedded fonts (pdf-fonts.ts). A letter no font has becomes □ and is counted, so that the report can say so.
 */
import { openWideFonts, type WideFont } from "./pdf-fonts.ts";
import { type PdfInside, type PdfReference, pdfInside, type StandardFont } from "./pdf-inside.ts";
import { inVisualOrder, mirror } from "./reading-order.ts";
import { isWinAnsi, toWinAnsiHex, WIN_ANSI_LETTERS } from "./win-ansi.ts";

export type TextStyle = {
  font: "regular" | "bold";
  size: number;
  leading: number;
  /** 0 is black, 1 white. */
  gray: number;
};
/** Left upper corner and width of a line, in points from the page's left upper corner. */
export type Place = { x: number; y: number; width: number; align?: "right" | undefined };
export type PdfText = ReturnType<typeof openPdfText>;

/** Stands for a letter no font has. */
export const MISSING = "□";
const ELLIPSIS = "…";
/** Where letters stand in a line, in parts of its height: lines of equal height stand level whatever their letters' size. */
const BASE = 0.616;
const UNITS_PER_EM = 1000;
/** Outline of thin letters, in parts of the size. */
const THICKENING = 0.03;

export function openPdfText(doc: PDFKit.PDFDocument) {
  const inside = pdfInside(doc);
  const wide = openWideFonts(doc);
  const fonts = {
    regular: openStandardFont(doc, inside, "Helvetica"),
    bold: openStandardFont(doc, inside, "Helvetica-Bold"),
  };
  let missing = 0;
  let pending = "";

  function flush(): void {
    if (pending === "") return;
    for (const { id, reference } of Object.values(fonts)) inside.page.fonts[id] ??= reference;
    inside.addContent(pending);
    pending = "";
  }

  /** Stretches of text that one font has; without a font it is a standard one. */
  function splitRuns(text: string): { text: string; font: WideFont | undefined }[] {
    const runs: { text: string; font: WideFont | undefined }[] = [];
    for (const letter of text) {
      const font = isWinAnsi(letter) ? undefined : wide.fontOf(letter);
      const last = runs.at(-1);
      if (last && last.font === font) last.text += letter;
      else runs.push({ text: letter, font });
    }
    return runs;
  }

  /** A line's runs as they are drawn, from left to right. pdfkit turns the letters of a right-to-left run round by itself. */
  function orderRuns(text: string): { text: string; font: WideFont | undefined }[] {
    return inVisualOrder(text).flatMap((stretch) => {
      const runs = splitRuns(stretch.text);
      if (!stretch.isRightToLeft) return runs;
      return runs.reverse().map((run) => (run.font ? run : { ...run, text: mirror(run.text) }));
    });
  }

  function widthOf(text: string, style: TextStyle): number {
    if (isWinAnsi(text)) return fonts[style.font].widthOf(text) * style.size;
    return splitRuns(text).reduce((sum, run) => {
      if (!run.font) return sum + fonts[style.font].widthOf(run.text) * style.size;
      wide.use(run.font);
      return sum + doc.fontSize(style.size).widthOfString(run.text);
    }, 0);
  }

  /** Control characters become spaces, letters no font has become □. */
  function showable(text: string): string {
    const plain = text.replace(/[\p{Cc}\u2028\u2029]+/gu, " ");
    if (isWinAnsi(plain)) return plain;
    return Array.from(plain, (letter) => {
      if (isJoiner(letter)) return "";
      if (isWinAnsi(letter) || wide.fontOf(letter)) return letter;
      if (isInvisible(letter)) return "";
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

  /** Writes one line, which must be the showable text `wrap` gave or plain Latin. */
  function line(text: string, style: TextStyle, { x, y, width, align }: Place): void {
    if (text === "") return;
    let left = align === "right" ? x + width - widthOf(text, style) : x;
    const base = y + style.leading * BASE;
    for (const run of isWinAnsi(text) ? [{ text, font: undefined }] : orderRuns(text)) {
      if (run.font) writeWide(run.text, run.font, style, left, base);
      else
        pending += `${fontOperators(fonts[style.font], style)} 1 0 0 -1 ${point(left)} ${point(base)} Tm <${toWinAnsiHex(run.text)}> Tj ET\n`;
      left += widthOf(run.text, style);
    }
  }

  function writeWide(text: string, font: WideFont, style: TextStyle, x: number, base: number): void {
    flush();
    wide.use(font);
    const color = grayColor(style.gray);
    const thickness = font.isThin ? style.size * THICKENING * (style.font === "bold" ? 2 : 1) : 0;
    doc.fontSize(style.size).fillColor(color).strokeColor(color).lineWidth(thickness);
    doc.text(text, x, base, { lineBreak: false, baseline: "alphabetic", fill: true, stroke: font.isThin });
  }

  function rule(x: number, y: number, width: number, stroke: { thickness: number; gray: number }): void {
    pending += `${stroke.thickness} w ${stroke.gray} G ${point(x)} ${point(y)} m ${point(x + width)} ${point(y)} l S\n`;
  }

  /** Places a piece that is written later, by `fillForm`. */
  function form(
    reference: PdfReference,
    name: string,
    style: TextStyle,
    { x, y }: { x: number; y: number },
  ): void {
    flush();
    inside.page.xobjects[name] = reference;
    pending += `q 1 0 0 -1 ${point(x)} ${point(y + style.leading * BASE)} cm /${name} Do Q\n`;
  }

  function newForm(style: TextStyle): PdfReference {
    const { id, reference } = fonts[style.font];
    const BBox = [0, -style.size, 100, style.size];
    return inside.ref({ Type: "XObject", Subtype: "Form", BBox, Resources: { Font: { [id]: reference } } });
  }

  function fillForm(reference: PdfReference, text: string, style: TextStyle): void {
    reference.write(`${fontOperators(fonts[style.font], style)} 0 0 Td <${toWinAnsiHex(text)}> Tj ET`);
    reference.end();
  }

  function remark(): string | undefined {
    if (missing === 0) return undefined;
    return `${MISSING} stands for a letter no font of this report has (${missing} in all). The CSV and JSON exports hold every letter.`;
  }

  return { prepare: wide.prepare, wrap, line, rule, form, newForm, fillForm, remark, flush };
}

type OpenFont = { id: string; reference: unknown; widthOf: (text: string) => number };

/** Widths are those of single letters, in parts of the size: what the operators above draw. */
function openStandardFont(doc: PDFKit.PDFDocument, inside: PdfInside, name: StandardFont): OpenFont {
  doc.font(name);
  const { id } = inside._font;
  const reference = inside._font.ref();
  const widths = letterWidths.get(name) ?? measureLetters(doc);
  letterWidths.set(name, widths);
  const widthOf = (text: string) => {
    let width = 0;
    for (const letter of text) width += widths.get(letter) ?? 0;
    return width;
  };
  return { id, reference, widthOf };
}
const letterWidths = new Map<StandardFont, Map<string, number>>();

function measureLetters(doc: PDFKit.PDFDocument): Map<string, number> {
  doc.fontSize(UNITS_PER_EM);
  return new Map(WIN_ANSI_LETTERS.map((letter) => [letter, doc.widthOfString(letter) / UNITS_PER_EM]));
}

function fontOperators({ id }: OpenFont, { size, gray }: TextStyle): string {
  return `BT /${id} ${size} Tf ${gray} g`;
}

function grayColor(gray: number): string {
  const level = Math.round(gray * 255).toString(16);
  return `#${level.padStart(2, "0").repeat(3)}`;
}

function point(value: number): string {
  return value.toFixed(2);
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

/** What makes one picture of several, and what asks for a coloured one: the pictures are drawn side by side. */
function isJoiner(letter: string): boolean {
  return /[\u200d\ufe0e\ufe0f]/u.test(letter);
}

/** Direction marks, selectors and marks without a letter have no shape of their own. */
function isInvisible(letter: string): boolean {
  return /[\p{Cf}\p{Mn}]/u.test(letter);
}
