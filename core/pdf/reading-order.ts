/** The visual order of a line that contains right-to-left words: the Unicode bidirectional algorithm (UAX #9) for text drawn left to right, run by run. */
import bidiFactory from "bidi-js";

/** Text of one direction. */
export type Stretch = { text: string; isRightToLeft: boolean };

const bidi = bidiFactory();
/** Hebrew, Arabic and the other right-to-left blocks, and their presentation forms. */
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]/;

/** Text that begins with it is read from right to left, whatever its first letter is; it is not drawn. */
export const RIGHT_TO_LEFT_MARK = "\u200f";

/** Starts each further line of a text, so that it is read in the direction of the whole text; it is not drawn. */
export function directionMark(text: string): string {
  if (!RIGHT_TO_LEFT.test(text)) return "";
  const [paragraph] = bidi.getEmbeddingLevels(text, "auto").paragraphs;
  return paragraph?.level === 1 ? RIGHT_TO_LEFT_MARK : "\u200e";
}

/** The runs of a line from left to right; the letters inside each stay in logical order. */
export function inVisualOrder(line: string): Stretch[] {
  if (!RIGHT_TO_LEFT.test(line)) return [{ text: line, isRightToLeft: false }];
  const { levels } = bidi.getEmbeddingLevels(line, "auto");
  const stretches: { text: string; level: number }[] = [];
  for (let at = 0; at < line.length; at++) {
    const level = levels[at] ?? 0;
    const last = stretches.at(-1);
    if (last?.level === level) last.text += line[at];
    else stretches.push({ text: line[at] ?? "", level });
  }
  return reorder(stretches).map(({ text, level }) => ({ text, isRightToLeft: level % 2 === 1 }));
}

/** Rule L2: from the highest level down to 1, each sequence at that level or above is reversed. */
function reorder<Item extends { level: number }>(items: readonly Item[]): Item[] {
  const highest = Math.max(...items.map(({ level }) => level));
  let ordered = [...items];
  for (let level = highest; level > 0; level--) {
    const next: Item[] = [];
    let turned: Item[] = [];
    for (const item of ordered) {
      if (item.level >= level) turned.unshift(item);
      else {
        next.push(...turned, item);
        turned = [];
      }
    }
    ordered = [...next, ...turned];
  }
  return ordered;
}

/** Spaces and symbols of a right-to-left run as they are drawn: reversed, with brackets mirrored. */
export function mirror(text: string): string {
  return Array.from(text, (letter) => bidi.getMirroredCharacter(letter) ?? letter)
    .reverse()
    .join("");
}
