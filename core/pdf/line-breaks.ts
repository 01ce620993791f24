/** Where a line of text may break (after UAX #14 and #29): after a space; between words in scripts that write no spaces; never inside a grapheme. */
const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" });
const words = new Intl.Segmenter("en", { granularity: "word" });
/** Without these each letter is a grapheme: marks, joiners, emoji modifiers, and letters that join the preceding one. */
const JOINED =
  /[\p{M}\p{Cf}\p{Emoji_Modifier}\p{Regional_Indicator}\u0e33\u0eb3\u1100-\u11ff\ua960-\ua97c\ud7b0-\ud7fb]/u;
/** Scripts without spaces between words: only a dictionary tells where a word ends. */
const UNSPACED = /[\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;
/** A line may break after any of these. */
const IDEOGRAPH = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]/u;
/** Stays on the line of the preceding or following character. */
const CLOSING = /^[\p{Pe}\p{Pf}\p{Po}\p{Lm}\p{M}]/u;
const OPENING = /[\p{Ps}\p{Pi}\p{Sc}]$/u;

/** What a reader perceives as one letter, with all its marks. */
export function graphemesOf(text: string): string[] {
  if (!JOINED.test(text)) return [...text];
  return Array.from(graphemes.segment(text), ({ segment }) => segment);
}

export type Measure = (text: string) => number;

/** Lines no wider than `width`, as many as it takes. A line may end in spaces. */
export function breakLines(text: string, width: number, measure: Measure): string[] {
  const lines: string[] = [];
  let line = "";
  let used = 0;
  for (let segment of segmentsOf(text)) {
    while (used + measure(segment.trimEnd()) > width) {
      // text that is too wide starts on the current line if that is nearly empty, and is cut where necessary
      const begin = used > width / 2 ? "" : longestBeginning(segment, width - used, measure);
      const taken = begin === "" && line === "" ? (graphemesOf(segment)[0] ?? "") : begin;
      lines.push(line + taken);
      segment = segment.slice(taken.length).trimStart();
      [line, used] = ["", 0];
    }
    line += segment;
    used += measure(segment);
  }
  return line === "" ? lines : [...lines, line];
}

/** Pieces of text after which a line may break. */
function segmentsOf(text: string): string[] {
  return (text.match(/[^ ]+ *| +/g) ?? []).flatMap((chunk) => {
    if (UNSPACED.test(chunk))
      return joinPunctuation(
        Array.from(words.segment(chunk), ({ segment }) => segment),
        UNSPACED,
      );
    return IDEOGRAPH.test(chunk) ? joinPunctuation(graphemesOf(chunk), IDEOGRAPH) : chunk;
  });
}

/** Only text of this script is split; punctuation and other text between stays attached. */
function joinPunctuation(pieces: readonly string[], script: RegExp): string[] {
  const joined: string[] = [];
  for (const piece of pieces) {
    const last = joined.at(-1);
    const isEnd = last !== undefined && (script.test(last) || script.test(piece));
    if (isEnd && !OPENING.test(last) && !CLOSING.test(piece)) joined.push(piece);
    else joined[Math.max(0, joined.length - 1)] = (last ?? "") + piece;
  }
  return joined;
}

/** As many whole graphemes as fit. */
function longestBeginning(text: string, width: number, measure: Measure): string {
  const letters = graphemesOf(text);
  const beginning = (count: number) => letters.slice(0, count).join("");
  let low = 0;
  let high = letters.length;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (measure(beginning(middle)) <= width) low = middle;
    else high = middle - 1;
  }
  return beginning(low);
}
