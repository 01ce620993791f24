/** The wallets of a network, in memory: exactly those whose `indexed_from` is set. Twenty bytes each, so that a million fit. */
import type { Hex } from "../core/domain/networks.ts";

const WORDS = 5;
const MIN_SLOTS = 1_024;
/** Slots are doubled when they are this full. */
const FULL = 0.6;

export class WatchedSet {
  #slots = MIN_SLOTS;
  #words: Uint32Array;
  #used: Uint8Array;
  size = 0;

  /** `expected` saves growing step by step. */
  constructor(expected = 0) {
    while (expected >= this.#slots * FULL) this.#slots *= 2;
    this.#words = new Uint32Array(this.#slots * WORDS);
    this.#used = new Uint8Array(this.#slots);
  }

  add(address: Hex): void {
    if (this.size >= this.#slots * FULL) this.#grow();
    const slot = this.#find(wordsOf(address));
    if (this.#used[slot] === 1) return;
    this.#put(slot, wordsOf(address));
    this.size++;
  }

  /** Lower-case addresses only, as nodes send topics. */
  has(address: Hex): boolean {
    return this.#used[this.#find(wordsOf(address))] === 1;
  }

  *[Symbol.iterator](): Generator<Hex> {
    for (let slot = 0; slot < this.#slots; slot++) {
      if (this.#used[slot] !== 1) continue;
      const words = this.#words.subarray(slot * WORDS, slot * WORDS + WORDS);
      yield `0x${Array.from(words, (word) => word.toString(16).padStart(8, "0")).join("")}`;
    }
  }

  /** The slot of this address, or the free one where it belongs. Addresses are hashes: their last word scatters them. */
  #find(words: Words): number {
    let slot = words[4] & (this.#slots - 1);
    while (this.#used[slot] === 1 && !this.#holds(slot, words)) slot = (slot + 1) & (this.#slots - 1);
    return slot;
  }

  #holds(slot: number, words: Words): boolean {
    const at = slot * WORDS;
    return (
      this.#words[at + 4] === words[4] &&
      this.#words[at] === words[0] &&
      this.#words[at + 1] === words[1] &&
      this.#words[at + 2] === words[2] &&
      this.#words[at + 3] === words[3]
    );
  }

  #put(slot: number, words: Words): void {
    this.#words.set(words, slot * WORDS);
    this.#used[slot] = 1;
  }

  #grow(): void {
    const addresses = [...this];
    this.#slots *= 2;
    this.#words = new Uint32Array(this.#slots * WORDS);
    this.#used = new Uint8Array(this.#slots);
    for (const address of addresses) this.#put(this.#find(wordsOf(address)), wordsOf(address));
  }
}

type Words = [number, number, number, number, number];

function wordsOf(address: Hex): Words {
  const word = (at: number) => Number.parseInt(address.slice(at, at + 8), 16);
  return [word(2), word(10), word(18), word(26), word(34)];
}
