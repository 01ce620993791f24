/** Commits blocks and counts what was committed. */
import { applyBlocks } from "./apply.ts";
import type { BlockHeader } from "./block-header.ts";
import type { Term } from "./term.ts";
import type { BlockContent } from "./usdc-logs.ts";

/** Blocks this close to the head are asked for by hash, in one go; what is further below is read in ranges. */
export const NEAR_BLOCKS = 64;

/** `startedMs` is when the first of the blocks was heard of (performance.now). */
export async function commitBlocks(
  term: Term,
  blocks: readonly BlockContent[],
  head: BlockHeader,
  startedMs: number,
): Promise<void> {
  await applyBlocks(term, blocks, head);
  const sum = (of: (block: BlockContent) => number) => blocks.reduce((total, block) => total + of(block), 0);
  term.metrics.committed(term.network, {
    blocks: blocks.length,
    transfers: sum((block) => block.transfers.length),
    logs: sum((block) => block.logCount),
    seconds: (performance.now() - startedMs) / 1000,
  });
  noteProgress(term, head, blocks.at(-1)?.block.timeS ?? head.timeS);
}

export function noteProgress(term: Term, head: BlockHeader, cursorTimeS: number): void {
  const lagS = Math.max(0, head.timeS - cursorTimeS);
  const at = { head: head.number, cursor: term.cursor.number, lagS, wallets: term.watched.size };
  term.metrics.following(term.network, at);
}
