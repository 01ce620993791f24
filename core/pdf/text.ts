/**
 * Text and rules on a PDF's pages. Latin text is written as page operators (PDF 32000-1, 9.4; latin-font.ts): pdfkit itself would kern
 * every pair of letters, which takes most of the time of a table of 10,000 rows. Other letters are shaped (embedded-font-words.ts) and
 * written in a font for their script (fonts.ts). Characters that no font has: missing-characters.ts.
 */

import { type EmbeddedWord, openEmbeddedWords } from "./embedded-font-words.ts";
import { hasLetter, openWideFonts, type WideFont } from "./fonts.ts";
import { openLatinFont } from "./latin-font.ts";
import { breakLines, graphemesOf } from "./line-breaks.ts";
import { replaceMissing } from "./missing-characters.ts";
import { type PdfReference, pdfInside } from "./pdfkit-internals.ts";
import { directionMark, inVisualOrder, mirror } from "./reading-order.ts";
import { isWinAnsi, toWinAnsiHex } from "./win-ansi.ts";

export type TextStyle = {
  font: "regular" | "bold";
  size: number;
  leading: number;
  /** 0 is black, 1 white. */
  gray: number;
};
/** Upper left corner and width of a line, in points from the page's upper left corner. */
export type Place = { x: number; y: number; width: number; align?: "right" | undefined };
/** Text in one font. */
type Run = { text: string; font: WideFont | undefined };
export type PdfText = Awaited<ReturnType<typeof openPdfText>>;

const ELLIPSIS = "…";
/** The baseline as a fraction of a line's height: lines of equal height are aligned whatever their font size. */
const BASE = 0.616;
const WIDTHS_KEPT = 5_000;
const UNITS_PER_EM = 1000;
/** Outline of thin letters, and of bold ones in fonts with one weight, as a fraction of the size. */
const THICKENING = 0.03;

export async function openPdfText(doc: PDFKit.PDFDocument) {
  const inside = pdfInside(doc);
  const wide = openWideFonts(doc);
  const wideWords = openEmbeddedWords();
  const fonts = {
    regular: await openLatinFont(doc, "regular"),
    bold: await openLatinFont(doc, "bold"),
  };
  /** As a fraction of the size; cached because words repeat. */
  const wideWidths = new Map<string, number>();
  const { showable, missingCount } = replaceMissing((grapheme) => wide.fontOf(grapheme) !== undefined);
  let pending = "";
  const pendingFonts = new Map<string, unknown>();

  function flush(): void {
    if (pending === "") return;
    for (const { id, reference } of Object.values(fonts)) inside.page.fonts[id] ??= reference;
    for (const [id, reference] of pendingFonts) inside.page.fonts[id] ??= reference;
    inside.addContent(pending);
    pending = "";
    pendingFonts.clear();
  }

  /** Runs of showable text that one font covers; without a font it is a standard one. */
  function splitRuns(text: string): Run[] {
    const runs: Run[] = [];
    for (const grapheme of graphemesOf(text)) {
      const last = runs.at(-1);
      const font = fontOf(grapheme, last?.font);
      // a direction mark is no longer needed once the runs are ordered
      if (!font && !isWinAnsi(grapheme)) continue;
      if (last && last.font === font) last.text += grapheme;
      else runs.push({ text: grapheme, font });
    }
    return runs;
  }

  /** A symbol that several scripts share is drawn in the font of its word. */
  function fontOf(grapheme: string, before: WideFont | undefined): WideFont | undefined {
    if (isWinAnsi(grapheme)) return undefined;
    return before && isSign(grapheme) && hasLetter(before, grapheme) ? before : wide.fontOf(grapheme);
  }

  /** A line's runs as they are drawn, from left to right; those in embedded fonts are reversed when they are shaped. */
  function orderRuns(text: string): (Run & { isRightToLeft: boolean })[] {
    return inVisualOrder(text).flatMap(({ text: stretch, isRightToLeft }) => {
      const runs = splitRuns(stretch).map((run) => ({ ...run, isRightToLeft }));
      if (!isRightToLeft) return runs;
      return runs.reverse().map((run) => (run.font ? run : { ...run, text: mirror(run.text) }));
    });
  }

  function widthOf(text: string, style: TextStyle): number {
    if (isWinAnsi(text)) return fonts[style.font].widthOf(text) * style.size;
    const key = `${style.font} ${text}`;
    const known = wideWidths.get(key);
    if (known !== undefined) return known * style.size;
    const width = orderRuns(text).reduce((sum, run) => sum + widthOfRun(run, style), 0);
    if (wideWidths.size >= WIDTHS_KEPT) wideWidths.clear();
    wideWidths.set(key, width / style.size);
    return width;
  }

  function widthOfRun(
    { text, font, isRightToLeft }: Run & { isRightToLeft: boolean },
    style: TextStyle,
  ): number {
    if (!font) return fonts[style.font].widthOf(text) * style.size;
    return (wideWords.shape(font, text, isRightToLeft).width * style.size) / UNITS_PER_EM;
  }

  function wrap(given: string, style: TextStyle, width: number, linesMax: number): string[] {
    const text = showable(given).trimEnd();
    if (widthOf(text, style) <= width) return [text];
    const further = directionMark(text);
    const lines = breakLines(text, width, (part) => widthOf(part, style)).map(
      (line, index) => (index === 0 ? "" : further) + line.trimEnd(),
    );
    if (lines.length <= linesMax) return lines;
    const last = graphemesOf(lines[linesMax - 1] ?? "").slice(0, -1);
    return [...lines.slice(0, linesMax - 1), last.join("") + ELLIPSIS];
  }

  /** Writes one line, which must be showable text from `wrap` or plain Latin. */
  function line(text: string, style: TextStyle, { x, y, width, align }: Place): void {
    if (text === "") return;
    let left = align === "right" ? x + width - widthOf(text, style) : x;
    const base = y + style.leading * BASE;
    const runs = isWinAnsi(text) ? [{ text, font: undefined, isRightToLeft: false }] : orderRuns(text);
    for (const run of runs) {
      const start = `1 0 0 -1 ${point(left)} ${point(base)} Tm`;
      if (run.font) writeWide(run.font, wideWords.shape(run.font, run.text, run.isRightToLeft), style, start);
      else
        pending += `${fontOperators(fonts[style.font], style)} ${start} <${toWinAnsiHex(run.text)}> Tj ET\n`;
      left += widthOfRun(run, style);
    }
  }

  function writeWide(font: WideFont, word: EmbeddedWord, style: TextStyle, start: string): void {
    const { embedded, isThin } = font;
    pendingFonts.set(embedded.id, embedded.ref());
    const steps = (isThin ? 1 : 0) + (style.font === "bold" ? 1 : 0);
    const thickness = style.size * THICKENING * steps;
    const outline = steps > 0 ? `${point(thickness)} w ${style.gray} G 2 Tr ` : "";
    pending += `${word.span} BDC ${fontOperators(embedded, style)} ${outline}${start} ${word.draw(style.size)}${steps > 0 ? " 0 Tr" : ""} ET EMC\n`;
  }

  function rule(x: number, y: number, width: number, stroke: { thickness: number; gray: number }): void {
    pending += `${stroke.thickness} w ${stroke.gray} G ${point(x)} ${point(y)} m ${point(x + width)} ${point(y)} l S\n`;
  }

  /** Reserves space for text that `fillForm` writes later. */
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

  return { prepare: wide.prepare, wrap, line, rule, form, newForm, fillForm, missingCount, flush };
}

function fontOperators({ id }: { id: string }, { size, gray }: TextStyle): string {
  return `BT /${id} ${size} Tf ${gray} g`;
}

function point(value: number): string {
  return value.toFixed(2);
}

/** Punctuation and other characters without a script of their own. */
function isSign(grapheme: string): boolean {
  return /^[\p{Script=Common}\p{Script=Inherited}]+$/u.test(grapheme);
}
