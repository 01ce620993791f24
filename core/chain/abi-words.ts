/** ABI words: 32 bytes as 64 hex digits without 0x, for calldata built by hand on hot paths. */
import type { Hex } from "../domain/networks.ts";

const WORD_DIGITS = 64;

export function uintWord(value: bigint | number): string {
  const digits = value.toString(16);
  if (value < 0 || digits.length > WORD_DIGITS) throw new RangeError("not a uint256");
  return digits.padStart(WORD_DIGITS, "0");
}

/** Addresses, hashes and other hex values, left-padded. */
export function hexWord(value: Hex): string {
  return value.slice(2).padStart(WORD_DIGITS, "0");
}

/** Length word, then the bytes right-padded to full words. */
export function bytesTail(bytes: Hex): string {
  const digits = bytes.slice(2);
  const words = Math.ceil(digits.length / WORD_DIGITS);
  return uintWord(digits.length / 2) + digits.padEnd(words * WORD_DIGITS, "0");
}
