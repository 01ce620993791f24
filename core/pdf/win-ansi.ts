/** WinAnsi (PDF 32000-1, annex D): the letters the standard fonts have, and their one-byte codes. */

/** Beyond Latin-1, in the order of their codes 80, 85, 91 … 97, 99. */
const EXTRA = new Map(
  [..."€…‘’“”•–—™"].map((letter, index) => [letter, "80859192939495969799".slice(index * 2, index * 2 + 2)]),
);
const TEXT = /^[\x20-\x7e\xa0-\xff€…‘’“”•–—™]*$/;

export const WIN_ANSI_LETTERS: readonly string[] = [
  ...Array.from({ length: 0xe0 }, (_, index) => String.fromCharCode(0x20 + index)).filter(isWinAnsi),
  ...EXTRA.keys(),
];

export function isWinAnsi(text: string): boolean {
  return TEXT.test(text);
}

export function toWinAnsiHex(text: string): string {
  let hex = "";
  for (const letter of text) hex += EXTRA.get(letter) ?? letter.charCodeAt(0).toString(16).padStart(2, "0");
  return hex;
}
