/** Draws words in embedded fonts as page operators (PDF 32000-1, 9.4.3): glyphs by their id in the embedded font, with their positions. */
import type { WideFont } from "./fonts.ts";
import type { EmbeddedFont } from "./pdfkit-internals.ts";
import type { PlacedGlyph } from "./shaping.ts";

export type EmbeddedWord = {
  /** In thousandths of the size. */
  width: number;
  /** Begins marked content with the text of the glyphs, for copying and searching (14.9.4). */
  span: string;
  /** Shows the glyphs from the current text position. */
  draw: (size: number) => string;
};
/** Glyphs at the same height, and that height above the baseline in thousandths of the size. */
type Level = { rise: number; glyphs: string };

/** Descriptions repeat words. Beyond this many, cached words are dropped and shaped again. */
const WORDS_KEPT = 2_000;
/** Letters mapped to one glyph outside marked content: readers reject longer entries. */
const LETTERS_MAX = 8;
const PER_MILLE = 1000;
const RIGHT_TO_LEFT = "\u202e";

export function openEmbeddedWords() {
  const kept = new Map<WideFont, Map<string, EmbeddedWord>>();
  return {
    shape(font: WideFont, text: string, isRightToLeft: boolean): EmbeddedWord {
      const words = kept.get(font) ?? new Map<string, EmbeddedWord>();
      kept.set(font, words);
      const key = isRightToLeft ? `${RIGHT_TO_LEFT}${text}` : text;
      const known = words.get(key);
      if (known) return known;
      if (words.size >= WORDS_KEPT) words.clear();
      const word = toWord(font, text, isRightToLeft);
      words.set(key, word);
      return word;
    },
  };
}

function toWord({ embedded, shape }: WideFont, text: string, isRightToLeft: boolean): EmbeddedWord {
  const glyphs = shape(text, isRightToLeft);
  const levels: Level[] = [];
  for (const glyph of glyphs) {
    const last = levels.at(-1);
    const drawn = drawGlyph(embedded, glyph);
    if (last?.rise === glyph.y) last.glyphs += drawn;
    else levels.push({ rise: glyph.y, glyphs: drawn });
  }
  const shown = levels.map((level) => ({ ...level, glyphs: `[${level.glyphs.replaceAll("><", "")}] TJ` }));
  return {
    width: glyphs.reduce((sum, { advance }) => sum + advance, 0),
    span: `/Span <</ActualText <feff${toUtf16Hex(text)}>>>`,
    draw: (size) => shown.map((level) => drawLevel(level, size)).join(" "),
  };
}

/** Numbers in a TJ array move the position to the left, in thousandths of the size. */
function drawGlyph(embedded: EmbeddedFont, glyph: PlacedGlyph): string {
  const number = includeGlyph(embedded, glyph);
  const after = (embedded.widths[number] ?? 0) + glyph.x - glyph.advance;
  return `${move(-glyph.x)}<${number.toString(16).padStart(4, "0")}>${move(after)}`;
}

function includeGlyph(
  { subset, widths, unicode, font, scale }: EmbeddedFont,
  { id, text }: PlacedGlyph,
): number {
  const number = subset.includeGlyph(id);
  widths[number] ??= font.getGlyph(id).advanceWidth * scale;
  unicode[number] ??= [...text].slice(0, LETTERS_MAX).map((letter) => letter.codePointAt(0) ?? 0);
  return number;
}

function move(distance: number): string {
  return Math.abs(distance) < 0.05 ? "" : ` ${Number(distance.toFixed(1))} `;
}

function drawLevel({ rise, glyphs }: Level, size: number): string {
  return rise === 0 ? glyphs : `${((rise * size) / PER_MILLE).toFixed(2)} Ts ${glyphs} 0 Ts`;
}

function toUtf16Hex(text: string): string {
  return Array.from({ length: text.length }, (_, at) =>
    text.charCodeAt(at).toString(16).padStart(4, "0"),
  ).join("");
}
