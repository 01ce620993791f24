/** Commits blocks with everything they change: cursor, transfers, payments, links, history and events in one SQL transaction. */

import { confirmingBlock, newestConfirmedBlock } from "../../core/domain/confirmations.ts";
import { insertBlocks, KEPT_BLOCKS } from "../../db/ledger/blocks.ts";
import { confirmTransfers } from "../../db/ledger/confirm-transfers.ts";
import { type BlockPoint, moveCursor } from "../../db/ledger/cursors.ts";
import { refreshLinks } from "../../db/links/link-status.ts";
import { confirmFacilitatedPayments } from "../../db/payments/facilitated-payments.ts";
import type { Tx } from "../../db/postgres/client.ts";
import { notify } from "../../db/postgres/notifications.ts";
import { isUniqueViolation } from "../../db/postgres/unique-violation.ts";
import { recordAccountChanges } from "../../db/wallet-ops/account-changes.ts";
import { concludeOperations } from "../../db/wallet-ops/confirm-operations.ts";
import type { BlockHeader } from "../source/block-header.ts";
import type { BlockContent } from "../source/decode-logs.ts";
import { withLostOperations } from "../source/read-lost-operations.ts";
import { withTags } from "../source/read-tags.ts";
import { bulkOf, FencedError, type Term } from "../term.ts";
import { accountChangesOf, reportChanges } from "./report-changes.ts";
import { settleTransfers, type Touched } from "./settle.ts";

/** Blocks to commit, and what is known of those around them. */
export type Span = {
  /** In order; blocks between them hold nothing of ours. */
  blocks: readonly BlockContent[];
  /** Where the cursor goes. */
  to: BlockPoint;
  head: BlockHeader;
  /** Headers to remember. */
  kept: readonly BlockHeader[];
  /** Everything at or below is deep enough. */
  depthNumber: number;
  confirmedAtS: (blockNumber: number) => number | undefined;
};

/** What a commit settled, and the Unix times at which its parts ended. */
export type Applied = { settled: Touched; readMs: number; settledMs: number; committedMs: number };

/** Applies what follows the cursor. Throws FencedError when another leader was faster. */
export async function applySpan(term: Term, span: Span): Promise<Applied> {
  const blocks = await withLostOperations(
    term,
    await withTags(term, span.blocks, (address) => term.watched.has(address)),
  );
  const readMs = unixMs();
  const write = (areNew: boolean) =>
    term.sql.begin((tx) => writeSpan(tx, term, { ...span, blocks }, { areNew }));
  const written = await write(term.isCatchingUp ?? false).catch((error) => {
    // left by a reorganisation, or booked for a wallet that joined while it was below the cursor
    if (!term.isCatchingUp || !isUniqueViolation(error)) throw error;
    return write(false);
  });
  term.cursor = span.to;
  return { ...written, readMs, committedMs: unixMs() };
}

/** Consecutive blocks that begin right after the cursor. */
export function toSpan(term: Term, blocks: readonly BlockContent[], head: BlockHeader): Span | undefined {
  const last = blocks.at(-1)?.block;
  if (!last) return undefined;
  const { confirmations } = term;
  const times = new Map(blocks.map(({ block }) => [block.number, block.timeS]));
  return {
    blocks,
    to: { number: last.number, hash: last.hash },
    head,
    // what a reorganisation may still reach, and what makes the transfers before this span deep
    kept: blocks
      .map(({ block }) => block)
      .filter((block, index) => block.number > head.number - KEPT_BLOCKS || index < confirmations - 1),
    depthNumber: newestConfirmedBlock(last.number, confirmations),
    confirmedAtS: (number) => times.get(confirmingBlock(number, confirmations)),
  };
}

/** By the clock that the times of blocks being heard of are read from. */
function unixMs(): number {
  return performance.timeOrigin + performance.now();
}

async function writeSpan(
  tx: Tx,
  term: Term,
  span: Span,
  { areNew }: { areNew: boolean },
): Promise<Pick<Applied, "settled" | "settledMs">> {
  const { network, confirmations, watched } = term;
  const { blocks, to, head, depthNumber } = span;
  const [isMoved] = await Promise.all([
    moveCursor(tx, { network, epoch: term.epoch, from: term.cursor, to, head }),
    insertBlocks(tx, network, span.kept),
  ]);
  if (!isMoved) throw new FencedError(network);
  const settled = await settleTransfers(tx, {
    network,
    transfers: blocks.flatMap((block) => block.transfers),
    spent: blocks.flatMap((block) => block.spent),
    operations: blocks.flatMap((block) => block.operations),
    isWatched: (address) => watched.has(address),
    confirmedAtS: span.confirmedAtS,
    bulk: term.isCatchingUp ? { ...bulkOf(term), areNew } : undefined,
  });
  await recordAccountChanges(tx, network, accountChangesOf(blocks));
  const [confirmed, facilitatedIds, concludedIds] = await Promise.all([
    confirmTransfers(tx, { network, depthNumber, confirmations }),
    confirmFacilitatedPayments(tx, { network, depthNumber }),
    concludeOperations(tx, { network, depthNumber }),
  ]);
  // after the operations and transfers that it names are concluded
  await reportChanges(tx, {
    network,
    after: newestConfirmedBlock(term.cursor.number, confirmations),
    depthNumber,
  });
  const linkIds = [...settled.linkIds, ...confirmed.linkIds];
  const moves = await refreshLinks(tx, { linkIds, isReorg: false, mismatchMinUnits: term.mismatchMinUnits });
  const settledMs = unixMs();
  await Promise.all([
    notify(tx, [
      ...settled.paymentIds,
      ...confirmed.paymentIds,
      ...facilitatedIds,
      ...settled.operationIds,
      ...concludedIds,
      ...moves.map(({ id }) => id),
    ]),
    announceBlock(tx, term, to.number),
  ]);
  return { settled, settledMs };
}

/** Wakes the worker, which looks at its transactions in flight. */
export async function announceBlock(tx: Tx, term: Pick<Term, "network">, number: number): Promise<void> {
  await tx`select pg_notify('block', ${`${term.network}:${number}`})`;
}
