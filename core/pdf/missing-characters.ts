/**
 * What a PDF shows for a character that no font has: its number, [U+1F9FF]. Such characters are counted, so that the report can say so.
 */

import { isFormat } from "./fonts.ts";
import { graphemesOf } from "./line-breaks.ts";
import { isWinAnsi } from "./win-ansi.ts";

/** `hasFont`: whether an embedded font has the grapheme; what WinAnsi has is in every standard font. */
export function replaceMissing(hasFont: (grapheme: string) => boolean) {
  let count = 0;

  /** Control characters become spaces, characters no font has become their numbers. */
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

  /** How many characters were written as their numbers. */
  const missingCount = () => count;

  return { showable, missingCount };
}

/** Sets the direction of what follows, and is not drawn itself. */
function isDirection(character: string): boolean {
  return /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/.test(character);
}

/** Combines with the letter before it: without that letter there is nothing to show. */
function isMark(character: string): boolean {
  return /\p{Mn}/u.test(character);
}
