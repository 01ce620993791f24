/**
 * How often the chain is read. Normally every block. On a chain whose blooms are so full that each block costs a log query, every block
 * only while something is waiting for the next one; otherwise several blocks at a time, every 2.5 to 8 seconds, and immediately when a node
 * announces a transfer to one of our wallets.
 */
import { densityOf } from "../../core/chain/bloom.ts";
import type { Waiting } from "../../db/ledger/watched-wallets.ts";
import type { BlockHeader } from "../source/block-header.ts";

/** IDLE: no link is open. The oldest unread block stays younger than the ten seconds after which health reports a fault. */
const READ_EVERY_MS = { FULL: 0, ANNOUNCED: 4_000, OPEN: 2_500, IDLE: 8_000 } as const;
/** How long nodes are asked for an announced block that none of them has yet. */
const EXPECTED_FOR_MS = 10_000;
/** How long to keep reading every block after the last reason to; confirmations and second payers follow soon. */
const FULL_FOR_MS = 60_000;
/** Below it a bloom rules out most blocks, and following every one costs little. */
const FULL_BLOOM = 0.3;
/** Hysteresis: blooms vary from block to block and changing the mode changes subscriptions, so the average has to fall this far to change back. */
const SPARSE_BLOOM = 0.2;
const BLOOM_WEIGHT = 0.1;

export type PollInterval = {
  /** What is waiting now. `isAnnounced`: whether transfers to our wallets are announced. */
  note: (waiting: Waiting, isAnnounced: boolean) => void;
  noteHead: (head: BlockHeader) => void;
  /** Makes the next poll read the chain. */
  readNow: () => void;
  /** A block with a transfer to us was announced: it is read as soon as a node has it. */
  expect: (blockNumber: number) => void;
  /** Whether several blocks may be read at once, without waiting for each announcement. */
  isEconomical: () => boolean;
  isDue: (cursorNumber: number) => boolean;
  /** Called before each read of the chain. True when blocks must be read one by one instead of waiting for more. */
  begin: (cursorNumber: number) => boolean;
};

export function openPollInterval(): PollInterval {
  let isCrowded = false;
  let density: number | undefined;
  let mode: keyof typeof READ_EVERY_MS = "FULL";
  let fullUntilMs = Number.NEGATIVE_INFINITY;
  let readMs = Number.NEGATIVE_INFINITY;
  let isUrgent = false;
  let expected = { blockNumber: -1, atMs: Number.NEGATIVE_INFINITY };
  const isUrgentAt = (cursorNumber: number) =>
    isUrgent || (cursorNumber < expected.blockNumber && performance.now() - expected.atMs < EXPECTED_FOR_MS);
  return {
    note(waiting, isAnnounced) {
      const { payments, facilitated, claims, released, transfers, operations, watches } = waiting;
      const waits = payments || facilitated || claims || released || transfers || operations;
      const nowMs = performance.now();
      if (waits) fullUntilMs = nowMs + FULL_FOR_MS;
      const isFull = !isCrowded || nowMs < fullUntilMs || (watches && !isAnnounced);
      if (isFull) mode = "FULL";
      else if (!waiting.links) mode = "IDLE";
      else mode = isAnnounced ? "ANNOUNCED" : "OPEN";
    },
    noteHead({ bloom, isHashProven }) {
      // what rules nothing out is as good as full
      const newest = isHashProven ? densityOf(bloom) : 1;
      density = density === undefined ? newest : density + BLOOM_WEIGHT * (newest - density);
      isCrowded = density >= (isCrowded ? SPARSE_BLOOM : FULL_BLOOM);
    },
    readNow() {
      isUrgent = true;
    },
    expect(blockNumber) {
      expected = { blockNumber, atMs: performance.now() };
    },
    isEconomical: () => mode !== "FULL",
    isDue: (cursorNumber) => isUrgentAt(cursorNumber) || performance.now() - readMs >= READ_EVERY_MS[mode],
    begin(cursorNumber) {
      const wasUrgent = isUrgentAt(cursorNumber);
      isUrgent = false;
      readMs = performance.now();
      return wasUrgent;
    },
  };
}
