/**
 * Catch-up far below the head with few wallets: asks nodes only for the logs of these wallets, so a day costs a few requests instead
 * of the whole token's traffic. Only final blocks are read this way, each hit whole and proven.
 */
import { confirmingBlock } from "../../core/domain/confirmations.ts";
import type { Hex } from "../../core/domain/networks.ts";
import type { Term } from "../leader-term.ts";
import { collectAfter, commitSpan, NEAR_BLOCKS } from "../settle/commit-blocks.ts";
import { type BlockHeader, readHeader } from "../source/block-header.ts";
import type { BlockContent } from "../source/decode-logs.ts";
import { readPast, TOPIC_VALUES_MAX } from "../source/past-logs.ts";

/** Up to this many wallets (one query a direction) this is cheaper than reading everything: docs/BENCHMARKS.md. */
const WALLETS_MAX = TOPIC_VALUES_MAX;
/** Shorter distances are read completely, which also proves the chain of hashes. */
const BLOCKS_MIN = 256;

/**
 * The block up to which this method may be used; undefined when it does not apply. Blocks near the head never count as final: some nodes say so of
 * every block, and transfers in final ones are confirmed at once.
 */
export async function findSparseEnd(term: Term, head: BlockHeader): Promise<number | undefined> {
  if (term.watched.size > WALLETS_MAX) return undefined;
  const finalized = await readHeader(term.chain, "finalized").catch(() => undefined);
  const end = Math.min(finalized?.number ?? -1, head.number - NEAR_BLOCKS);
  return end - term.cursor.number >= BLOCKS_MIN ? end : undefined;
}

/** Reads up to the final block `end`. False when the node is on another chain than the cursor. */
export async function catchUpSparse(term: Term, head: BlockHeader, end: number): Promise<boolean> {
  const from = term.cursor.number + 1;
  const addresses: Hex[] = [...term.watched];
  for await (const range of readPast(term.chain, { from, to: end, addresses })) {
    if (term.signal.aborted) return true;
    const startedMs = performance.now();
    if (!(await isCursorOnChain(term))) return false;
    const last = await readHeader(term.chain, range.to);
    if (last?.number !== range.to) return false;
    const times = await readConfirmationTimes(term, range.blocks);
    const to = { number: last.number, hash: last.hash };
    const confirmedAtS = (number: number) => times.get(number);
    await commitSpan(
      term,
      { blocks: range.blocks, to, head, kept: [last], depthNumber: last.number, confirmedAtS },
      startedMs,
    );
    collectAfter(range.blocks);
  }
  return true;
}

/** The node that answers is still on the chain that was read so far. */
async function isCursorOnChain(term: Term): Promise<boolean> {
  const header = await readHeader(term.chain, term.cursor.number);
  return header?.hash === term.cursor.hash;
}

/** All of it is final, so the blocks that confirmed it exist. */
async function readConfirmationTimes(
  term: Term,
  blocks: readonly BlockContent[],
): Promise<Map<number, number>> {
  const times = new Map<number, number>();
  for (const { block } of blocks) {
    const deepNumber = confirmingBlock(block.number, term.confirmations);
    const deep = deepNumber === block.number ? block : await readHeader(term.chain, deepNumber);
    times.set(block.number, deep?.timeS ?? block.timeS);
  }
  return times;
}
