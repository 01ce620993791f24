/** Uses a block's logs bloom (Yellow Paper 4.4.3) to detect answers that lack logs. */

import type { Hex } from "../domain/networks.ts";
import { keccak256Bytes } from "./keccak.ts";

const BLOOM_BITS = 2_048;

/** The three bits of an address or topic, counted from the end of the bloom. */
export type BloomBits = readonly [number, number, number];

export function bloomBitsOf(item: Hex): BloomBits {
  const hash = keccak256Bytes(Buffer.from(item.slice(2), "hex"));
  const bit = (at: number) => (((hash[at] ?? 0) << 8) | (hash[at + 1] ?? 0)) % BLOOM_BITS;
  return [bit(0), bit(2), bit(4)];
}

/** A wallet address as an indexed log argument. */
export function topicOfAddress(address: Hex): Hex {
  return `0x${address.slice(2).padStart(64, "0")}`;
}

/** False proves that no such log exists; true may be a false positive. */
export function mayContain(bloom: Hex, bits: BloomBits): boolean {
  return bits.every((bit) => isSet(bloom, bit));
}

/** Share of bits that are set: the false-positive rate of `mayContain` grows with it. */
export function densityOf(bloom: Hex): number {
  let set = 0;
  for (let at = 2; at < bloom.length; at++) set += POPULATION[Number.parseInt(bloom[at] ?? "0", 16)] ?? 0;
  return set / BLOOM_BITS;
}
const POPULATION = [0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4];

/** The bloom of these logs. It equals the header's bloom when no log is missing (or, rarely, when a crowded bloom hides one). */
export function bloomOf(logs: readonly { address: string; topics: readonly string[] }[]): Hex {
  const bytes = new Uint8Array(BLOOM_BITS / 8);
  const items = new Set(logs.flatMap((log) => [log.address.toLowerCase(), ...log.topics]));
  for (const item of items) {
    for (const bit of bloomBitsOf(item as Hex)) {
      const at = bytes.length - 1 - (bit >> 3);
      bytes[at] = (bytes[at] ?? 0) | (1 << (bit & 7));
    }
  }
  return `0x${Buffer.from(bytes).toString("hex")}`;
}

function isSet(bloom: Hex, bit: number): boolean {
  const digit = bloom[bloom.length - 1 - (bit >> 2)] ?? "0";
  return ((Number.parseInt(digit, 16) >> (bit & 3)) & 1) === 1;
}
