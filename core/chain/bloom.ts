/** What a block's logs bloom (Yellow Paper 4.4.3) says about answers that may lack logs. */

import type { Hex } from "../domain/networks.ts";
import { keccak256Bytes } from "./keccak.ts";

const BLOOM_BITS = 2_048;

/** The three bits of an address or topic, counted from the bloom's end. */
export type BloomBits = readonly [number, number, number];

export function bloomBitsOf(item: Hex): BloomBits {
  const hash = keccak256Bytes(Buffer.from(item.slice(2), "hex"));
  const bit = (at: number) => (((hash[at] ?? 0) << 8) | (hash[at + 1] ?? 0)) % BLOOM_BITS;
  return [bit(0), bit(2), bit(4)];
}

/** A wallet as an indexed argument. */
export function topicOfAddress(address: Hex): Hex {
  return `0x${address.slice(2).padStart(64, "0")}`;
}

/** False proves that nothing of this kind was logged; true may be chance. */
export function mayContain(bloom: Hex, bits: BloomBits): boolean {
  return bits.every((bit) => isSet(bloom, bit));
}

/** Share of bits that are set: how much `mayContain` proves. */
export function densityOf(bloom: Hex): number {
  let set = 0;
  for (let at = 2; at < bloom.length; at++) set += POPULATION[Number.parseInt(bloom[at] ?? "0", 16)] ?? 0;
  return set / BLOOM_BITS;
}
const POPULATION = [0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4];

/** The bloom of these logs: equal to the header's exactly when none is missing (but for chance in a crowded block). */
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
