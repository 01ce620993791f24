/** WinAnsi (PDF 32000-1, annex D): the letters of Latin text, and their one-byte codes. */

/** Beyond Latin-1, in the order of their codes 80, 85, 91 … 97, 99. */
const EXTRA = new Map(
  [..."€…‘’“”•–—™"].map((letter, index) => [letter, "80859192939495969799".slice(index * 2, index * 2 + 2)]),
);
const LETTERS = new Map([...EXTRA].map(([letter, hex]) => [Number.parseInt(hex, 16), letter]));
const TEXT = /^[\x20-\x7e\xa0-\xff€…‘’“”•–—™]*$/;

/** 20 to ff. */
export const WIN_ANSI_CODES: readonly number[] = Array.from({ length: 0xe0 }, (_, index) => 0x20 + index);

/** Empty for a code that we do not write. */
export function letterOfCode(code: number): string {
  const letter = LETTERS.get(code) ?? String.fromCharCode(code);
  return isWinAnsi(letter) ? letter : "";
}

export function isWinAnsi(text: string): boolean {
  return TEXT.test(text);
}

export function toWinAnsiHex(text: string): string {
  let hex = "";
  for (const letter of text) hex += EXTRA.get(letter) ?? letter.charCodeAt(0).toString(16).padStart(2, "0");
  return hex;
}
