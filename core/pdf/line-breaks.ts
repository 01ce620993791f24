/** Where a line of text may end (after UAX #14 and #29): after a space; between words where a script writes none between them; never inside a grapheme. */
const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" });
const words = new Intl.Segmenter("en", { granularity: "word" });
/** Without these each letter is a grapheme: marks, joiners, what modifies pictures, and letters that join the one before them. */
const JOINED =
  /[\p{M}\p{Cf}\p{Emoji_Modifier}\p{Regional_Indicator}\u0e33\u0eb3\u1100-\u11ff\ua960-\ua97c\ud7b0-\ud7fb]/u;
/** Scripts whose words stand side by side: only a dictionary tells where one ends. */
const UNSPACED = /[\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;
/** A line may end after any of these. */
const IDEOGRAPH = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]/u;
/** Stays with what is before it, or after it. */
const CLOSING = /^[\p{Pe}\p{Pf}\p{Po}\p{Lm}\p{M}]/u;
const OPENING = /[\p{Ps}\p{Pi}\p{Sc}]$/u;

/** What a reader takes for one letter, with all that stands on it. */
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
      // what is too wide begins on a line that is hardly begun, cut where it must be
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

/** Stretches of text that a line may end after. */
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

/** Only pieces of this script are pieces; punctuation stays with them, and so does what is between others. */
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
