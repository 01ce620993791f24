/** The wallets of a network, in memory: exactly those whose `indexed_from` is set. Twenty-one bytes a slot, so that a million fit. */
import type { Hex } from "../core/domain/networks.ts";

const WORDS = 5;
const HEX_DIGITS_A_WORD = 8;
const MIN_SLOTS = 1_024;
/** More slots are made when they are this full. */
const FULL = 0.8;
const GROWTH = 1.5;
/** 2^32 divided by the golden ratio: neighbours end far apart (Knuth, TAOCP 6.4). */
const SCATTER = 0x9e3779b1;

export class WatchedSet {
  #slots: number;
  #words: Uint32Array;
  #used: Uint8Array;
  /** The address that is looked for. */
  readonly #sought = new Uint32Array(WORDS);
  size = 0;

  /** `expected` saves growing step by step. */
  constructor(expected = 0) {
    this.#slots = Math.max(MIN_SLOTS, Math.ceil((expected + 1) / FULL));
    this.#words = new Uint32Array(this.#slots * WORDS);
    this.#used = new Uint8Array(this.#slots);
  }

  add(address: Hex): void {
    this.#seek(address, 0);
    this.#addSought();
  }

  /** Addresses one a line, each line ended. */
  addLines(lines: string): void {
    for (let at = 0; at < lines.length; at = lines.indexOf("\n", at) + 1) {
      this.#seek(lines, at);
      this.#addSought();
    }
  }

  /** Lower-case addresses only, as nodes send topics. */
  has(address: Hex): boolean {
    this.#seek(address, 0);
    return this.#used[this.#find()] === 1;
  }

  *[Symbol.iterator](): Generator<Hex> {
    for (let slot = 0; slot < this.#slots; slot++) {
      if (this.#used[slot] !== 1) continue;
      const words = this.#words.subarray(slot * WORDS, slot * WORDS + WORDS);
      yield `0x${Array.from(words, (word) => word.toString(16).padStart(HEX_DIGITS_A_WORD, "0")).join("")}`;
    }
  }

  /** Reads the address that begins here. Digits and not pieces of text: every log asks twice. */
  #seek(text: string, start: number): void {
    let at = start + 2;
    for (let index = 0; index < WORDS; index++) {
      let word = 0;
      for (const end = at + HEX_DIGITS_A_WORD; at < end; at++)
        word = (word << 4) | nibble(text.charCodeAt(at));
      this.#sought[index] = word;
    }
  }

  /** The slot of the sought address, or the free one where it belongs. */
  #find(): number {
    const scattered = Math.imul(this.#sought[WORDS - 1] ?? 0, SCATTER) >>> 0;
    let slot = Math.floor((scattered / 2 ** 32) * this.#slots);
    while (this.#used[slot] === 1 && !this.#holdsSought(slot)) slot = slot + 1 === this.#slots ? 0 : slot + 1;
    return slot;
  }

  #holdsSought(slot: number): boolean {
    const at = slot * WORDS;
    for (let index = WORDS - 1; index >= 0; index--)
      if (this.#words[at + index] !== this.#sought[index]) return false;
    return true;
  }

  #addSought(): void {
    const slot = this.#find();
    if (this.#used[slot] === 1) return;
    this.#words.set(this.#sought, slot * WORDS);
    this.#used[slot] = 1;
    this.size++;
    if (this.size >= this.#slots * FULL) this.#grow();
  }

  #grow(): void {
    const [words, used] = [this.#words, this.#used];
    this.#slots = Math.ceil(this.#slots * GROWTH);
    this.#words = new Uint32Array(this.#slots * WORDS);
    this.#used = new Uint8Array(this.#slots);
    for (let old = 0; old < used.length; old++) {
      if (used[old] !== 1) continue;
      this.#sought.set(words.subarray(old * WORDS, old * WORDS + WORDS));
      const slot = this.#find();
      this.#words.set(this.#sought, slot * WORDS);
      this.#used[slot] = 1;
    }
  }
}

/** The value of a hex digit's character code: 0-9 are 0x30-0x39, a-f 0x61-0x66. */
function nibble(code: number): number {
  return (code & 15) + (code >> 6) * 9;
}
