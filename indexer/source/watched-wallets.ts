/**
 * The wallets of a network, in memory: those whose `indexed_from` is set, and those about to join. Twenty-one bytes a slot, so that a
 * million fit, in many small tables: one that is full grows alone, and the whole is never held twice.
 */
import type { Hex } from "../../core/domain/networks.ts";

const WORDS = 5;
const HEX_DIGITS_A_WORD = 8;
/** Partitioned by the first eight bits of what an address scatters to. */
const TABLES = 256;
const SLOTS_MIN = 8;
/** How full a table is made. Addresses fall on tables by chance, so each keeps room for more than its share. */
const FULL_FIRST = 0.87;
/** More slots are made when they are this full: the longest way to a free one is still some tens of slots. */
const FULL = 0.92;
const GROWTH = 1.1;
/** 2^32 divided by the golden ratio: neighbours end far apart (Knuth, TAOCP 6.4). */
const SCATTER = 0x9e3779b1;

type Table = { words: Uint32Array; used: Uint8Array; size: number };

export class WatchedSet {
  readonly #tables: Table[];
  /** The address that is looked for. */
  readonly #sought = new Uint32Array(WORDS);
  size = 0;

  /** `expected` saves growing step by step. */
  constructor(expected = 0) {
    const slots = Math.max(SLOTS_MIN, Math.ceil(expected / TABLES / FULL_FIRST));
    this.#tables = Array.from({ length: TABLES }, () => makeTable(slots));
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
    const scattered = scatter(this.#sought);
    const table = this.#tableOf(scattered);
    return table.used[findSlot(table, this.#sought, scattered)] === 1;
  }

  *[Symbol.iterator](): Generator<Hex> {
    for (const { words, used } of this.#tables) {
      for (let slot = 0; slot < used.length; slot++) {
        if (used[slot] === 1) yield toAddress(words.subarray(slot * WORDS, slot * WORDS + WORDS));
      }
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

  #tableOf(scattered: number): Table {
    // there is one for every value of eight bits
    return this.#tables[scattered >>> 24] as Table;
  }

  #addSought(): void {
    const scattered = scatter(this.#sought);
    const table = this.#tableOf(scattered);
    if (!place(table, this.#sought, scattered)) return;
    this.size++;
    if (table.size >= table.used.length * FULL) this.#tables[scattered >>> 24] = grown(table);
  }
}

function makeTable(slots: number): Table {
  return { words: new Uint32Array(slots * WORDS), used: new Uint8Array(slots), size: 0 };
}

function grown({ words, used }: Table): Table {
  const table = makeTable(Math.ceil(used.length * GROWTH) + 1);
  for (let slot = 0; slot < used.length; slot++) {
    if (used[slot] !== 1) continue;
    const address = words.subarray(slot * WORDS, slot * WORDS + WORDS);
    place(table, address, scatter(address));
  }
  return table;
}

/** False when the address is there already. */
function place(table: Table, address: Uint32Array, scattered: number): boolean {
  const slot = findSlot(table, address, scattered);
  if (table.used[slot] === 1) return false;
  table.words.set(address, slot * WORDS);
  table.used[slot] = 1;
  table.size++;
  return true;
}

/** The slot of this address, or the free one where it belongs. */
function findSlot({ words, used }: Table, address: Uint32Array, scattered: number): number {
  const slots = used.length;
  let slot = Math.floor(((scattered & 0xff_ffff) / 2 ** 24) * slots);
  while (used[slot] === 1 && !isAt(words, slot * WORDS, address)) slot = slot + 1 === slots ? 0 : slot + 1;
  return slot;
}

function isAt(words: Uint32Array, at: number, address: Uint32Array): boolean {
  for (let index = WORDS - 1; index >= 0; index--) if (words[at + index] !== address[index]) return false;
  return true;
}

/** 32 bits: which table, and where in it. */
function scatter(address: Uint32Array): number {
  return Math.imul(address[WORDS - 1] ?? 0, SCATTER) >>> 0;
}

function toAddress(words: Uint32Array): Hex {
  return `0x${Array.from(words, (word) => word.toString(16).padStart(HEX_DIGITS_A_WORD, "0")).join("")}`;
}

/** The value of a hex digit's character code: 0-9 are 0x30-0x39, a-f 0x61-0x66. */
function nibble(code: number): number {
  return (code & 15) + (code >> 6) * 9;
}
