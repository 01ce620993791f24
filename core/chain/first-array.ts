/**
 * How many elements calldata claims for the array that is its first argument. Asked before calldata of others is decoded: its elements may all lie at
 * the same bytes, and decoded a hundred kilobytes become gigabytes.
 */
import type { Hex } from "../domain/networks.ts";

const SELECTOR_DIGITS = 10;
const WORD_DIGITS = 64;

/** NaN where there is no such word. */
export function countFirstArray(callData: Hex): number {
  const offset = wordAt(callData, SELECTOR_DIGITS);
  return wordAt(callData, SELECTOR_DIGITS + 2 * offset);
}

function wordAt(callData: Hex, position: number): number {
  const digits = callData.slice(position, position + WORD_DIGITS);
  return digits.length === WORD_DIGITS ? Number(`0x${digits}`) : Number.NaN;
}
