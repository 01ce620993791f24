/** The parts of pdfkit 0.20.2 its types leave out, gathered here: page resources, page operators, indirect objects, embedded fonts. */
/** An object of the file that others point to. */
export type PdfReference = { write(content: string): void; end(content?: Uint8Array): void };

/** A font the file carries: the glyphs `subset` was given. Widths are in thousandths, by the number a glyph has in the subset. */
export type EmbeddedFont = {
  id: string;
  ref(): unknown;
  readonly subset: { includeGlyph(id: number): number };
  readonly widths: number[];
  /** The code points a glyph stands for, for who copies or searches text. */
  readonly unicode: number[][];
  readonly scale: number;
  font: {
    hasGlyphForCodePoint(codePoint: number): boolean;
    glyphForCodePoint(codePoint: number): { advanceWidth: number };
    getGlyph(id: number): { advanceWidth: number };
    readonly bbox: { minX: number; minY: number; maxX: number; maxY: number };
    readonly ascent: number;
    readonly descent: number;
    readonly capHeight: number;
  };
};

export type PdfInside = {
  /** The page being written. */
  readonly page: { fonts: Record<string, unknown>; xobjects: Record<string, unknown> };
  /** The font chosen last. */
  readonly _font: EmbeddedFont;
  addContent(operators: string): void;
  ref(data: Record<string, unknown>): PdfReference;
};

export function pdfInside(doc: PDFKit.PDFDocument): PdfInside {
  return doc as unknown as PdfInside;
}
