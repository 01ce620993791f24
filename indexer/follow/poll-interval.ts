/**
 * How often the chain is read. Normally each block; on a chain whose blooms are so full that each block costs a log query, each block only
 * while something waits for the next one. Otherwise several blocks at a time, every 2.5 to 8 seconds, and immediately when a node
 * announces a transfer to a wallet of ours.
 */
import { densityOf } from "../../core/chain/bloom.ts";
import type { Waiting } from "../../db/ledger/watched-wallets.ts";
import type { BlockHeader } from "../source/block-header.ts";

/** IDLE: no link is open. The oldest unread block stays younger than the ten seconds after which health reports a fault. */
const READ_EVERY_MS = { FULL: 0, ANNOUNCED: 4_000, OPEN: 2_500, IDLE: 8_000 } as const;
/** For how long a block that was announced, and that no node has shown since, is asked for. */
const EXPECTED_FOR_MS = 10_000;
/** After the last thing that waited for a block; confirmations and second payers come soon after. */
const FULL_FOR_MS = 60_000;
/** Below it a bloom rules out most blocks, and following every one costs little. */
const FULL_BLOOM = 0.3;
/** Blooms differ from block to block, and a change of mode changes subscriptions: their average has to fall this far to change it back. */
const SPARSE_BLOOM = 0.2;
const BLOOM_WEIGHT = 0.1;

export type PollInterval = {
  /** What waits now. `isAnnounced`: transfers to our wallets are announced. */
  note: (waiting: Waiting, isAnnounced: boolean) => void;
  noteHead: (head: BlockHeader) => void;
  /** The next poll reads the chain. */
  readNow: () => void;
  /** A block with a transfer to us was announced: it is read as soon as a node has it. */
  expect: (blockNumber: number) => void;
  /** Blocks may be read several at once, and without every announcement. */
  isEconomical: () => boolean;
  isDue: (cursorNumber: number) => boolean;
  /** Called before each read of the chain. True when it can't wait for more blocks: they are read one by one. */
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
    noteHead({ bloom }) {
      const newest = densityOf(bloom);
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
