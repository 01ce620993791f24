/**
 * The font for Latin text: Arimo, whose letters have the same widths as the standard Helvetica, but embedded. A reader that substitutes a
 * font of its own would place other glyphs at Helvetica's widths, which looks uneven. It is embedded whole, as a simple font with one byte
 * per letter (PDF 32000-1, 9.6.3), so that text is written without shaping and can be copied as written.
 */
import { fileURLToPath } from "node:url";
import PDFDocument from "pdfkit";
import { decompress } from "wawoff2";
import { pdfInside } from "./pdfkit-internals.ts";
import { letterOfCode, WIN_ANSI_CODES } from "./win-ansi.ts";

export type LatinWeight = "regular" | "bold";
export type LatinFont = { id: string; reference: unknown; widthOf: (text: string) => number };

type FontData = {
  trueType: Buffer;
  /** As fractions of the size, by letter. */
  widths: ReadonlyMap<string, number>;
  descriptor: Record<string, unknown>;
};

const FILES: Readonly<Record<LatinWeight, { name: string; file: string; stem: number }>> = {
  regular: { name: "Arimo", file: "arimo-latin-400-normal.woff2", stem: 80 },
  bold: { name: "Arimo-Bold", file: "arimo-latin-700-normal.woff2", stem: 140 },
};
const FIRST_CODE = 0x20;
const LAST_CODE = 0xff;
const UNITS_PER_EM = 1000;
/** "Nonsymbolic": its letters are the encoding's (table 121). */
const FLAGS = 32;

/** Read once per process. */
const kept = new Map<LatinWeight, Promise<FontData>>();

export async function openLatinFont(doc: PDFKit.PDFDocument, weight: LatinWeight): Promise<LatinFont> {
  const data = kept.get(weight) ?? readFont(weight);
  kept.set(weight, data);
  const { trueType, widths, descriptor } = await data;
  const inside = pdfInside(doc);
  const file = inside.ref({ Length1: trueType.length });
  file.end(trueType);
  const described = inside.ref({ ...descriptor, FontFile2: file });
  described.end();
  const reference = inside.ref({
    Type: "Font",
    Subtype: "TrueType",
    BaseFont: descriptor.FontName,
    Encoding: "WinAnsiEncoding",
    FirstChar: FIRST_CODE,
    LastChar: LAST_CODE,
    FontDescriptor: described,
    Widths: WIN_ANSI_CODES.map((code) => Math.round((widths.get(letterOfCode(code)) ?? 0) * UNITS_PER_EM)),
  });
  reference.end();
  const widthOf = (text: string) => {
    let width = 0;
    for (const letter of text) width += widths.get(letter) ?? 0;
    return width;
  };
  return { id: weight === "bold" ? "LB" : "LR", reference, widthOf };
}

async function readFont(weight: LatinWeight): Promise<FontData> {
  const { name, file, stem } = FILES[weight];
  const path = fileURLToPath(import.meta.resolve(`@fontsource/arimo/files/${file}`));
  const trueType = Buffer.from(await decompress(await Bun.file(path).bytes()));
  // a throwaway document, whose font reader measures the letters
  const doc = new PDFDocument({ autoFirstPage: false });
  doc.registerFont(name, trueType);
  doc.font(name);
  const { font, scale } = pdfInside(doc)._font;
  const letters = WIN_ANSI_CODES.map(letterOfCode).filter((letter) => letter !== "");
  const widths = new Map(
    letters.map((letter) => {
      const { advanceWidth } = font.glyphForCodePoint(letter.codePointAt(0) ?? 0);
      return [letter, Math.round(advanceWidth * scale) / UNITS_PER_EM];
    }),
  );
  const { bbox, ascent, descent, capHeight } = font;
  const units = (value: number) => Math.round(value * scale);
  const descriptor = {
    Type: "FontDescriptor",
    FontName: name,
    Flags: FLAGS,
    ItalicAngle: 0,
    StemV: stem,
    FontBBox: [bbox.minX, bbox.minY, bbox.maxX, bbox.maxY].map(units),
    Ascent: units(ascent),
    Descent: units(descent),
    CapHeight: units(capHeight),
  };
  return { trueType, widths, descriptor };
}
