/** The parts of pdfkit 0.20.2 that its types omit: page resources, page operators, indirect objects, embedded fonts. */
/** An indirect object: others in the file refer to it. */
export type PdfReference = { write(content: string): void; end(content?: Uint8Array): void };

/** An embedded font with the glyphs added to `subset`. Widths are in thousandths of the size, indexed by the glyph's id in the subset. */
export type EmbeddedFont = {
  id: string;
  ref(): unknown;
  readonly subset: { includeGlyph(id: number): number };
  readonly widths: number[];
  /** The code points that a glyph represents, for copying and searching text. */
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
  /** The font selected last. */
  readonly _font: EmbeddedFont;
  addContent(operators: string): void;
  ref(data: Record<string, unknown>): PdfReference;
};

export function pdfInside(doc: PDFKit.PDFDocument): PdfInside {
  return doc as unknown as PdfInside;
}
