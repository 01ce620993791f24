/**
 * What calldata claims to hold in the array that is its first argument. Asked before calldata of others is decoded: its elements may all lie at the same
 * bytes, and decoded a hundred kilobytes become gigabytes.
 */
import type { Hex } from "../domain/networks.ts";

const SELECTOR_DIGITS = 10;
const WORD_DIGITS = 64;

/** An array of structs: how many elements there may be, the words of each, and which of these words are offsets of `bytes`. */
export type ArrayShape = { elementsMax: number; words: number; bytesAt: readonly number[] };

/**
 * False when there are more elements, or when they claim more bytes than the calldata has: an encoding as compilers make it has each byte once. Reads
 * lengths only, so the cost is that of a word for each field.
 */
export function isFirstArrayWithin(callData: Hex, { elementsMax, words, bytesAt }: ArrayShape): boolean {
  const arrayAt = pointerAt(callData, SELECTOR_DIGITS, SELECTOR_DIGITS);
  const count = wordAt(callData, arrayAt);
  // NaN where there is no such word
  if (!(count <= elementsMax)) return false;
  const offsetsAt = arrayAt + WORD_DIGITS;
  // beside its words, an element has its offset in the array, and a length for each of its bytes
  let claimed = count * (1 + words + bytesAt.length) * WORD_DIGITS;
  for (let index = 0; index < count; index++) {
    const elementAt = pointerAt(callData, offsetsAt + index * WORD_DIGITS, offsetsAt);
    for (const word of bytesAt)
      claimed += 2 * wordAt(callData, pointerAt(callData, elementAt + word * WORD_DIGITS, elementAt));
  }
  return claimed <= callData.length;
}

/** Where the offset at `position`, counted from `base`, points to. */
function pointerAt(callData: Hex, position: number, base: number): number {
  return base + 2 * wordAt(callData, position);
}

function wordAt(callData: Hex, position: number): number {
  const digits = callData.slice(position, position + WORD_DIGITS);
  return digits.length === WORD_DIGITS ? Number(`0x${digits}`) : Number.NaN;
}
