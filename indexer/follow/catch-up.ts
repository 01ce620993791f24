/**
 * Catch-up far below the head: ranges that grow while nodes respond well and halve when they do not, each committed as a whole. While one
 * is read, two others are being committed.
 */
import { RpcTransportError } from "../../core/rpc/errors.ts";
import { openEventEpoch } from "../../db/events/event-log.ts";
import type { Term } from "../leader-term.ts";
import { type Applying, NOTHING_BEFORE, toSpan } from "../settle/apply-span.ts";
import { collectAfter, commitAfter, NEAR_BLOCKS } from "../settle/commit-blocks.ts";
import type { BlockHeader } from "../source/block-header.ts";
import { readRange, type Watch } from "../source/block-logs.ts";
import { type BlockContent, isOurs } from "../source/decode-logs.ts";

const BLOCKS_FIRST = 16;
const BLOCKS_MAX = 500;
/** A range grows while it returns fewer logs than this, which one SQL transaction handles comfortably. */
const LOGS_WANTED = 1_000;
const SLOW_MS = 3_000;
const ATTEMPTS_MAX = 8;

/** How many blocks the next range has, and whether every block of the last one touched our wallets. */
type RangeSize = { blocks: number; areOurs: boolean };

/**
 * Reads up to NEAR_BLOCKS below `head`, at most `blocksMax` blocks. False when the next block does not follow the cursor: a
 * reorganisation.
 */
export async function catchUp(
  term: Term,
  head: BlockHeader,
  watch: Watch,
  blocksMax = Number.POSITIVE_INFINITY,
): Promise<boolean> {
  const last = Math.min(head.number - NEAR_BLOCKS, term.cursor.number + blocksMax);
  const size: RangeSize = { blocks: BLOCKS_FIRST, areOurs: false };
  let older: Applying = NOTHING_BEFORE;
  let newer: Applying = NOTHING_BEFORE;
  let tip = term.cursor;
  let reading = readNext(term, tip.number + 1, last, size, watch);
  try {
    while (tip.number < last && !term.signal.aborted) {
      const startedMs = performance.now();
      const blocks = await reading;
      await older.applied;
      const span = toSpan(term, blocks, head);
      if (!span || blocks[0]?.block.parentHash !== tip.hash) return false;
      tip = span.to;
      // two transactions opening it would block each other; a restarted server has a new one
      await openEventEpoch(term.sql);
      [older, newer] = [newer, commitAfter(term, { span, startedMs }, newer)];
      // the next range is fetched while these are committed
      reading = tip.number < last ? readNext(term, tip.number + 1, last, size, watch) : Promise.resolve([]);
      reading.catch(() => undefined);
    }
    await newer.applied;
    return true;
  } finally {
    // no range may still be committing when a reorganisation is undone or the term ends
    await Promise.allSettled([older.applied, newer.applied]);
  }
}

async function readNext(
  term: Term,
  from: number,
  last: number,
  size: RangeSize,
  watch: Watch,
): Promise<BlockContent[]> {
  for (let attempts = 1; ; attempts++) {
    const to = Math.min(from + size.blocks - 1, last);
    const startedMs = performance.now();
    try {
      const blocks = await readRange(term.chain, { from, to }, watch, size);
      adjust(size, blocks, performance.now() - startedMs);
      // now, while the database is busy with the previous range
      collectAfter(blocks);
      return blocks;
    } catch (error) {
      const isBusy = error instanceof RpcTransportError && error.kind !== "rate-limit";
      if (!isBusy || size.blocks === 1 || attempts === ATTEMPTS_MAX) throw error;
      size.blocks = Math.max(1, size.blocks >> 1);
      term.log.debug(
        { network: term.network, from, blocks: size.blocks, err: error },
        "range failed: continuing with smaller ranges",
      );
    }
  }
}

/** Additive increase, multiplicative decrease, by logs and time. */
function adjust(size: RangeSize, blocks: readonly BlockContent[], tookMs: number): void {
  const logs = countLogs(blocks);
  size.areOurs = blocks.every(isOurs);
  if (logs > LOGS_WANTED * 2 || tookMs > SLOW_MS) size.blocks = Math.max(1, size.blocks >> 1);
  else if (logs < LOGS_WANTED && blocks.length >= size.blocks)
    size.blocks = Math.min(BLOCKS_MAX, size.blocks + Math.max(8, size.blocks >> 1));
}

function countLogs(blocks: readonly BlockContent[]): number {
  return blocks.reduce((total, block) => total + block.logCount, 0);
}
