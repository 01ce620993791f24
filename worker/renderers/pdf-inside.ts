/** The parts of pdfkit 0.20.2 its types leave out, gathered here: page resources, page operators, indirect objects. */
export type StandardFont = "Helvetica" | "Helvetica-Bold";

/** An object of the file that others point to. */
export type PdfReference = { write(content: string): void; end(): void };

export type PdfInside = {
  /** The page being written. */
  readonly page: { fonts: Record<string, unknown>; xobjects: Record<string, unknown> };
  /** The font chosen last. */
  readonly _font: {
    id: string;
    ref(): unknown;
    font: { hasGlyphForCodePoint(codePoint: number): boolean };
  };
  addContent(operators: string): void;
  ref(data: Record<string, unknown>): PdfReference;
};

export function pdfInside(doc: PDFKit.PDFDocument): PdfInside {
  return doc as unknown as PdfInside;
}
