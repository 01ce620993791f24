/** Commits blocks (apply-span.ts), and updates metrics, traces and progress. */
import { newestConfirmedBlock } from "../../core/domain/confirmations.ts";
import { collectEvery } from "../../core/runtime/collect-garbage.ts";
import type { Term } from "../leader-term.ts";
import type { BlockHeader } from "../source/block-header.ts";
import type { BlockContent } from "../source/decode-logs.ts";
import { type Applied, type Applying, applyAfter, applySpan, type Span, toSpan } from "./apply-span.ts";
import { traceCommit } from "./trace-commit.ts";

/** Blocks this close to the head are read by hash; older ones in ranges. */
export const NEAR_BLOCKS = 64;
/** Logs read between garbage collections: about two kilobytes of text and objects each, several times that for a booked one. */
const LOGS_A_COLLECTION = 4_000;
const LOGS_A_BOOKED_ONE = 3;

/** Counts for the whole process. */
const collect = collectEvery(LOGS_A_COLLECTION);

/** Commits consecutive blocks after the cursor. `startedMs` is when the first of them was heard of (performance.now). */
export async function commitBlocks(
  term: Term,
  blocks: readonly BlockContent[],
  head: BlockHeader,
  startedMs: number,
): Promise<void> {
  const span = toSpan(term, blocks, head);
  if (span) await commitSpan(term, span, startedMs);
}

/** Commits, in a catch-up, consecutive blocks that follow those of `before`, which may not be committed yet. */
export function commitAfter(
  term: Term,
  { span, startedMs }: { span: Span; startedMs: number },
  before: Applying,
): Applying {
  const applying = applyAfter(term, span, before);
  const applied = applying.applied.then((result) => noteCommit(term, span, startedMs, result));
  // an error is thrown to the caller that awaits it
  applied.catch(() => undefined);
  return { ...applying, applied };
}

/** Moves the cursor past blocks that contain nothing of ours (indexer/source/quiet-range.ts). */
export async function commitQuietBlocks(term: Term, head: BlockHeader, startedMs: number): Promise<void> {
  const to = { number: head.number, hash: head.hash };
  const depthNumber = newestConfirmedBlock(head.number, term.confirmations);
  const confirmedAtS = () => undefined;
  await commitSpan(term, { blocks: [], to, head, kept: [head], depthNumber, confirmedAtS }, startedMs);
}

export async function commitSpan(term: Term, span: Span, startedMs: number): Promise<void> {
  noteCommit(term, span, startedMs, await applySpan(term, span));
}

function noteCommit(term: Term, span: Span, startedMs: number, applied: Applied): void {
  traceCommit(term, span, { ...applied, heardMs: performance.timeOrigin + startedMs });
  const sum = (of: (block: BlockContent) => number) =>
    span.blocks.reduce((total, block) => total + of(block), 0);
  const [transfers, logs] = [sum((block) => block.transfers.length), sum((block) => block.logCount)];
  const seconds = (performance.now() - startedMs) / 1000;
  term.metrics.committed(term.network, { blocks: applied.movedBlocks, transfers, logs, seconds });
  term.metrics.polled(term.network);
  noteProgress(term, span.head, span.blocks.at(-1)?.block.timeS ?? span.head.timeS);
}

/** Called after blocks were read, whose data is now garbage. */
export function collectAfter(blocks: readonly BlockContent[]): void {
  const logs = blocks.reduce((total, block) => total + block.logCount, 0);
  const transfers = blocks.reduce((total, block) => total + block.transfers.length, 0);
  collect(logs + LOGS_A_BOOKED_ONE * transfers);
}

export function noteProgress(term: Term, head: BlockHeader, cursorTimeS: number): void {
  term.metrics.following(term.network, {
    head: head.number,
    headTimeS: head.timeS,
    cursor: term.cursor.number,
    cursorTimeS,
    wallets: term.watched.size,
  });
}
