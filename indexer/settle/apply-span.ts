/**
 * Commits blocks with everything they change: cursor, transfers, payments, links, history and events in one SQL transaction. During a
 * catch-up two spans may be in progress: while the first is committed, the second already stores rows that do not depend on other
 * spans, so two Postgres processes are busy. It moves the cursor after the first, or fails with it.
 */

import { confirmingBlock, newestConfirmedBlock } from "../../core/domain/confirmations.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { KEPT_BLOCKS } from "../../core/domain/reorg-depth.ts";
import { insertBlocks } from "../../db/ledger/blocks.ts";
import { confirmTransfers } from "../../db/ledger/confirm-transfers.ts";
import { type BlockPoint, moveCursor } from "../../db/ledger/cursors.ts";
import { type Due, findDue } from "../../db/ledger/due-at-depth.ts";
import { lockOutNextLeader } from "../../db/ledger/former-leader-transactions.ts";
import { lockPaymentsOfBlocks } from "../../db/ledger/lock-payments.ts";
import type { NewTransfer } from "../../db/ledger/transfers.ts";
import { lockLinks } from "../../db/links/lock-links.ts";
import { recomputeLinkStatus } from "../../db/links/recompute-link-status.ts";
import { confirmFacilitatedPayments } from "../../db/payments/facilitated-payments.ts";
import type { Sql, Tx } from "../../db/postgres/client.ts";
import { notify } from "../../db/postgres/notifications.ts";
import { isUniqueViolation } from "../../db/postgres/unique-violation.ts";
import { confirmDeepOperations } from "../../db/wallet-ops/confirm-operations.ts";
import { moveRefunds } from "../../db/wallet-ops/reorganised-refunds.ts";
import { bulkOf, FencedError, type Term } from "../leader-term.ts";
import type { BlockHeader } from "../source/block-header.ts";
import type { BlockContent } from "../source/decode-logs.ts";
import { findRecipients } from "../source/find-recipients.ts";
import { withLostOperations } from "../source/read-lost-operations.ts";
import { withTags } from "../source/read-tags.ts";
import { confirmOperationsIsolated } from "./confirm-operations.ts";
import { commitIsolating, type Isolate, type IsolateIn } from "./isolate-refused-records.ts";
import { accountChangesOf, reportWalletChanges, storeAccountChanges } from "./report-wallet-changes.ts";
import { findUnrelated, settleTransfers, storeUnrelated, type Touched } from "./settle-transfers.ts";

/** Blocks to commit, and what is known about the surrounding blocks. */
export type Span = {
  /** In order; blocks between them contain nothing of ours. */
  blocks: readonly BlockContent[];
  /** Where the cursor must be: the block before them. Absent when that was checked by other means. */
  from?: BlockPoint;
  /** The new cursor position. */
  to: BlockPoint;
  head: BlockHeader;
  /** Headers to store. */
  kept: readonly BlockHeader[];
  /** Everything at or below this block is deep enough. */
  depthNumber: number;
  confirmedAtS: (blockNumber: number) => number | undefined;
};

/** What a commit settled, how many blocks the cursor moved, and the Unix times at which its parts ended. */
export type Applied = {
  settled: Touched;
  movedBlocks: number;
  readMs: number;
  settledMs: number;
  committedMs: number;
};

/** A span whose commit is in progress. */
export type Applying<Result = unknown> = {
  /**
   * True once its transaction has begun and nothing it writes can affect a later span. False when later spans must
   * wait for it. Never rejects.
   */
  readonly isUnrelated: Promise<boolean>;
  readonly applied: Promise<Result>;
};

export const NOTHING_BEFORE: Applying = {
  isUnrelated: Promise.resolve(false),
  applied: Promise.resolve(),
};

/** Applies the blocks after the cursor. Throws FencedError when another leader came first. */
export async function applySpan(term: Term, span: Span): Promise<Applied> {
  const detailed = await withDetails(term, span);
  return commitIsolating(term, nameOf(term, span), (isolateIn) => applyWhole(term, detailed, isolateIn));
}

/** Applies, in a catch-up, what follows the blocks of `before`. Nothing of it is visible before those are committed. */
export function applyAfter(term: Term, span: Span, before: Applying): Applying<Applied> {
  const { promise: isUnrelated, resolve } = Promise.withResolvers<boolean>();
  const applied = commitIsolating(term, nameOf(term, span), (isolateIn) =>
    applyAhead(term, span, { before, onBegun: () => resolve(true), isolateIn }),
  ).finally(() => resolve(false));
  return { isUnrelated, applied };
}

type Ahead = { before: Applying; onBegun: () => void; isolateIn: IsolateIn };

async function applyAhead(term: Term, span: Span, { before, onBegun, isolateIn }: Ahead): Promise<Applied> {
  if (!(await before.isUnrelated)) await before.applied;
  const detailed = await withDetails(term, span);
  const writeAhead = () =>
    term.sql.begin(async (tx) => {
      // this also orders the events of a span before those of the next, by transaction number
      if (!(await lockOutNextLeader(tx, term))) throw new FencedError(term.network);
      const rows = await findUnrelated(tx, settlingOf(term, detailed));
      if (!rows) return undefined;
      onBegun();
      await storeAhead(tx, term, rows);
      await before.applied;
      // not earlier: the holder of a link lock that the previous span waits for may itself wait for a refund
      const settle = async ({ hasOrphanedRefunds }: Due) => {
        if (hasOrphanedRefunds) await moveRefunds(tx, term.network);
        return NOTHING_SETTLED;
      };
      return writeSpan(tx, term, detailed, { settle });
    });
  const written = isolateIn ? undefined : await writeAhead();
  if (written) return finish(term, detailed, written);
  await before.applied;
  return applyWhole(term, detailed, isolateIn);
}

type OpenTransaction = Parameters<Parameters<Sql["begin"]>[1]>[0];

/**
 * Like `writeAsNew`, but within the same transaction: another one would have a higher number than the next span's, so its events would be out of
 * order.
 */
async function storeAhead(tx: OpenTransaction, term: Term, rows: readonly NewTransfer[]): Promise<void> {
  const store = (part: Tx, areNew: boolean) =>
    storeUnrelated(part, term.network, rows, { ...bulkOf(term), areNew });
  try {
    await tx.savepoint((part) => store(part, true));
  } catch (error) {
    if (!isUniqueViolation(error)) throw error;
    await store(tx, false);
  }
}

const NOTHING_SETTLED: Touched = { linkIds: [], paymentIds: [], operationIds: [] };

async function applyWhole(term: Term, span: DetailedSpan, isolateIn: IsolateIn): Promise<Applied> {
  const { isCatchingUp = false } = term;
  const written = await writeAsNew(term, (tx, areNew) => {
    const isolate = isolateIn?.(tx);
    const bulk = isCatchingUp ? { ...bulkOf(term), areNew } : undefined;
    const settle = (due: Due, lockedToo: readonly string[]) =>
      settleTransfers(tx, { ...settlingOf(term, span), bulk, due, lockedToo, isolate });
    return writeSpan(tx, term, span, { settle, isolate });
  });
  return finish(term, span, written);
}

/** The same for each attempt, however many blocks it contains. */
const nameOf = ({ cursor }: Term, { from = cursor }: Span) => `after ${from.number}`;

/** In a catch-up all transfers are expected to be new first, see `Bulk`. */
async function writeAsNew<Result>(
  { sql, isCatchingUp = false }: Term,
  write: (tx: OpenTransaction, areNew: boolean) => Promise<Result>,
): Promise<Result> {
  const begin = (areNew: boolean) => sql.begin((tx) => write(tx, areNew)) as Promise<Result>;
  return begin(isCatchingUp).catch((error) => {
    // left over from a reorganisation, or booked for a wallet that joined while the block was below the cursor
    if (!isCatchingUp || !isUniqueViolation(error)) throw error;
    return begin(false);
  });
}

type Written = Omit<Applied, "readMs" | "committedMs">;

function finish(term: Term, { to, readMs }: DetailedSpan, written: Written): Applied {
  term.cursor = to;
  return { ...written, readMs, committedMs: unixMs() };
}

/** With what only their transactions and the database say. */
type DetailedSpan = Span & { isRecipient: (address: Hex) => boolean; readMs: number };

async function withDetails(term: Term, span: Span): Promise<DetailedSpan> {
  const isRecipient = await findRecipients(term, span.blocks, (address) => term.watched.has(address));
  const blocks = await withLostOperations(term, await withTags(term, span.blocks, isRecipient));
  return { ...span, blocks, isRecipient, readMs: unixMs() };
}

function settlingOf({ network, watched }: Term, { blocks, confirmedAtS, isRecipient }: DetailedSpan) {
  return {
    isRecipient,
    network,
    transfers: blocks.flatMap((block) => block.transfers),
    spent: blocks.flatMap((block) => block.spent),
    operations: blocks.flatMap((block) => block.operations),
    isWatched: (address: Hex) => watched.has(address),
    confirmedAtS,
  };
}

/** Consecutive blocks starting right after the cursor. */
export function toSpan(term: Term, blocks: readonly BlockContent[], head: BlockHeader): Span | undefined {
  const [first, last] = [blocks[0]?.block, blocks.at(-1)?.block];
  if (!first || !last) return undefined;
  const { confirmations } = term;
  const times = new Map(blocks.map(({ block }) => [block.number, block.timeS]));
  return {
    blocks,
    from: { number: first.number - 1, hash: first.parentHash },
    to: { number: last.number, hash: last.hash },
    head,
    // blocks that a reorganisation may still reach, and those that confirm transfers before this span
    kept: blocks
      .map(({ block }) => block)
      .filter((block, index) => block.number > head.number - KEPT_BLOCKS || index < confirmations - 1),
    depthNumber: newestConfirmedBlock(last.number, confirmations),
    confirmedAtS: (number) => times.get(confirmingBlock(number, confirmations)),
  };
}

/** Uses the same clock as the times at which blocks were heard of. */
function unixMs(): number {
  return performance.timeOrigin + performance.now();
}

type Writing = {
  /** `lockedToo`: links that are recomputed whatever it settles. */
  settle: (due: Due, lockedToo: readonly string[]) => Promise<Touched>;
  isolate?: Isolate | undefined;
};

async function writeSpan(
  tx: Tx,
  term: Term,
  span: DetailedSpan,
  { settle, isolate }: Writing,
): Promise<Written> {
  const { network, confirmations } = term;
  const { blocks, from = term.cursor, to, head, depthNumber } = span;
  const { spent, operations } = settlingOf(term, span);
  const after = newestConfirmedBlock(from.number, confirmations);
  const userOpHashes = operations.map(({ userOpHash }) => userOpHash);
  // pipelined in this order: the links are read once their payments are locked
  const [isMoved, , , stored] = await Promise.all([
    moveCursor(tx, { network, epoch: term.epoch, from, to, head }),
    insertBlocks(tx, network, span.kept),
    lockPaymentsOfBlocks(tx, network, { from: from.number, authorizations: spent, depthNumber }),
    findDue(tx, { network, after, depthNumber, userOpHashes }),
  ]);
  if (!isMoved) throw new FencedError(network);
  const due = withOwn(stored, term, span);
  const lockedToo = [...due.linksToConfirm, ...due.linksRefunded];
  const settled = await settle(due, lockedToo);
  // already locked if links were attributed; otherwise the refunded ones would be locked before those to confirm
  if (due.linksRefunded.length > 0) await lockLinks(tx, lockedToo);
  await storeAccountChanges(tx, network, accountChangesOf(blocks), isolate);
  const [confirmed, facilitatedIds = [], confirmedOperationIds = []] = await Promise.all([
    due.confirmsTransfers ? confirmTransfers(tx, { network, depthNumber, confirmations }) : NOTHING_CONFIRMED,
    due.confirmsFacilitated ? confirmFacilitatedPayments(tx, { network, depthNumber }) : undefined,
    due.confirmsOperations && !isolate ? confirmDeepOperations(tx, { network, depthNumber }) : undefined,
  ]);
  const isolatedIds = isolate && (await confirmOperationsIsolated(tx, { network, depthNumber }, isolate));
  // after the operations and transfers that it names are confirmed
  if (due.confirmsChanges || due.hasOutgoing)
    await reportWalletChanges(tx, { network, after, depthNumber }, isolate);
  const linkIds = [...settled.linkIds, ...confirmed.linkIds];
  const changedIds = [
    ...settled.paymentIds,
    ...confirmed.paymentIds,
    ...facilitatedIds,
    ...settled.operationIds,
    ...confirmedOperationIds,
    ...(isolatedIds ?? []),
  ];
  await Promise.all([
    recomputeLinkStatus(tx, { linkIds, isReorg: false, mismatchMinUnits: term.mismatchMinUnits }),
    notify(tx, changedIds),
    announceBlock(tx, term, to.number),
  ]);
  const settledMs = unixMs();
  return { settled, settledMs, movedBlocks: to.number - from.number };
}

const NOTHING_CONFIRMED = { linkIds: [], paymentIds: [] };

/** Includes what these blocks themselves confirm, once they are settled. */
function withOwn(stored: Due, { watched }: Term, { blocks, depthNumber, confirmedAtS }: Span): Due {
  const deep = blocks.filter(({ block }) => block.number <= depthNumber);
  return {
    ...stored,
    confirmsTransfers:
      stored.confirmsTransfers ||
      deep.some(({ block, transfers }) => transfers.length > 0 && confirmedAtS(block.number) === undefined),
    confirmsFacilitated: stored.confirmsFacilitated || deep.some(({ spent }) => spent.length > 0),
    confirmsOperations: stored.confirmsOperations || blocks.some(({ operations }) => operations.length > 0),
    confirmsChanges: stored.confirmsChanges || deep.some(({ accountLogs }) => accountLogs.length > 0),
    hasOutgoing:
      stored.hasOutgoing || deep.some(({ transfers }) => transfers.some(({ from }) => watched.has(from))),
  };
}

/** Wakes the worker, which checks its transactions in flight. */
export async function announceBlock(tx: Tx, term: Pick<Term, "network">, number: number): Promise<void> {
  await tx`select pg_notify('block', ${`${term.network}:${number}`})`;
}
