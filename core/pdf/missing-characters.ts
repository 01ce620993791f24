/**
 * A character that no font has is shown as its code point, [U+1F9FF]. Such characters are counted, so that the report can mention them.
 */

import { isFormat } from "./fonts.ts";
import { graphemesOf } from "./line-breaks.ts";
import { isWinAnsi } from "./win-ansi.ts";

/** `hasFont`: whether an embedded font has the grapheme; every standard font has the characters of WinAnsi. */
export function replaceMissing(hasFont: (grapheme: string) => boolean) {
  let count = 0;

  /** Control characters become spaces; characters that no font has become their code points. */
  function showable(text: string): string {
    const plain = text.replace(/[\p{Cc}\u2028\u2029]+/gu, " ");
    if (isWinAnsi(plain)) return plain;
    return graphemesOf(plain)
      .map((grapheme) =>
        isWinAnsi(grapheme) || hasFont(grapheme)
          ? grapheme
          : Array.from(grapheme, showableCharacter).join(""),
      )
      .join("");
  }

  function showableCharacter(character: string): string {
    if (isDirection(character) || isWinAnsi(character) || hasFont(character)) return character;
    if (isFormat(character) || isMark(character)) return "";
    count += 1;
    return `[U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}]`;
  }

  /** How many characters were written as code points. */
  const missingCount = () => count;

  return { showable, missingCount };
}

/** Sets the direction of the following text, and is not drawn itself. */
function isDirection(character: string): boolean {
  return /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/.test(character);
}

/** Combines with the preceding letter: without it there is nothing to show. */
function isMark(character: string): boolean {
  return /\p{Mn}/u.test(character);
}
