/**
 * Which glyphs of a font draw a word, and their positions, by HarfBuzz, which knows how every script joins, stacks and reorders its
 * letters. The shaper in pdfkit's fontkit renders Thai, Bengali and Kannada words incorrectly and throws on Gurmukhi and Malayalam ones.
 */
import type { Buffer as TextBuffer } from "harfbuzzjs";

/** Distances are in thousandths of the size, y upwards. */
export type PlacedGlyph = {
  id: number;
  /** The text that the glyph represents; empty when the preceding glyph represents both. */
  text: string;
  advance: number;
  x: number;
  y: number;
};
export type Shape = (word: string, isRightToLeft: boolean) => PlacedGlyph[];

const PER_MILLE = 1000;

/** The glyphs of the given TrueType font in the order in which they are drawn, from left to right. The first call loads HarfBuzz. */
export async function openShaper(trueType: Uint8Array): Promise<Shape> {
  const harfbuzz = await import("harfbuzzjs");
  const face = new harfbuzz.Face(new harfbuzz.Blob(trueType));
  const font = new harfbuzz.Font(face);
  const buffer = new harfbuzz.Buffer();
  const scale = PER_MILLE / face.upem;
  return (word, isRightToLeft) => {
    buffer.reset();
    buffer.addText(word);
    buffer.guessSegmentProperties();
    buffer.setDirection(isRightToLeft ? harfbuzz.Direction.RTL : harfbuzz.Direction.LTR);
    harfbuzz.shape(font, buffer);
    return readGlyphs(buffer, word, scale);
  };
}

function readGlyphs(buffer: TextBuffer, word: string, scale: number): PlacedGlyph[] {
  const infos = buffer.getGlyphInfos();
  const positions = buffer.getGlyphPositions();
  const starts = [...new Set(infos.map(({ cluster }) => cluster))].sort((one, other) => one - other);
  const done = new Set<number>();
  return infos.map(({ codepoint, cluster }, index) => {
    const end = starts[starts.indexOf(cluster) + 1] ?? word.length;
    const text = done.has(cluster) ? "" : word.slice(cluster, end);
    done.add(cluster);
    const { xAdvance = 0, xOffset = 0, yOffset = 0 } = positions[index] ?? {};
    // HarfBuzz calls a glyph's id its code point
    return { id: codepoint, text, advance: xAdvance * scale, x: xOffset * scale, y: yOffset * scale };
  });
}
