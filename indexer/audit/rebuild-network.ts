/**
 * Recreates all chain-derived rows from the chain, in one SQL transaction: readers see the old state until the new one is
 * complete. Attributions of transfers to links are kept where the ledger is consistent about them; everything else is decided by
 * the rules. Differences are past errors and are reported.
 */

import { confirmingBlock, newestConfirmedBlock } from "../../core/domain/confirmations.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { KEPT_BLOCKS } from "../../core/domain/reorg-depth.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import { openEventEpoch } from "../../db/events/event-log.ts";
import { findCursor } from "../../db/ledger/cursors.ts";
import { holdEpoch } from "../../db/ledger/leader-epoch.ts";
import {
  compareWithSnapshot,
  dropChainRows,
  dropOwnEvents,
  findConfirmedBlock,
  keepRowIds,
  type RebuildDifference,
  restoreRowIds,
  takeSnapshot,
} from "../../db/ledger/rebuild.ts";
import { keepDecisions, matchPastClaims, nameOldDecisions } from "../../db/ledger/rebuild-attributions.ts";
import { findOldestWallet } from "../../db/ledger/watched-wallets.ts";
import { recomputeLinkStatus } from "../../db/links/recompute-link-status.ts";
import { confirmDeepOperations } from "../../db/wallet-ops/confirm-operations.ts";
import { findPastBoundTransfers, keepBoundTransfers } from "../../db/wallet-ops/missed-events.ts";
import { FencedError, type Term, watchOf } from "../leader-term.ts";
import { applyUnappliedTransfers } from "../settle/apply-unapplied-transfers.ts";
import { confirmOperationsIsolated } from "../settle/confirm-operations.ts";
import { type OpenTransaction, writeIsolating } from "../settle/isolate-refused-records.ts";
import { findPriorAttributions } from "../settle/keep-rebuild-attributions.ts";
import { assertSameBranch, findAnchors, OtherBranchError } from "../settle/same-branch.ts";
import { settleTransfers } from "../settle/settle-transfers.ts";
import { type BlockHeader, readHeader } from "../source/block-header.ts";
import { readRange } from "../source/block-logs.ts";
import { type BlockContent, isOurs, type SeenTransfer } from "../source/decode-logs.ts";
import { findRecipients } from "../source/find-recipients.ts";
import { readPast, TOPIC_VALUES_MAX } from "../source/past-logs.ts";
import { withLostOperations } from "../source/read-lost-operations.ts";
import { withTags } from "../source/read-tags.ts";
import { findFirstBlockSince } from "./backfill-wallets.ts";

/** Up to this many wallets, nodes are asked only for their logs; beyond, for all of the token's. */
const FILTERED_WALLETS_MAX = 5 * TOPIC_VALUES_MAX;
const DENSE_BLOCKS = 200;

export type RebuildReport = {
  fromBlock: number;
  toBlock: number;
  transfers: number;
  differences: RebuildDifference[];
};

/** `term` must be new: it prevents every indexer from writing during the rebuild. Throws when the cursor's block is not on the chain. */
export async function rebuildNetwork(term: Term): Promise<RebuildReport> {
  const { network, sql, cursor } = term;
  await assertOnChain(term);
  const oldest = await findOldestWallet(sql, network);
  const fromBlock = await findFirstBlockSince(
    term,
    oldest?.getTime() ?? Number.POSITIVE_INFINITY,
    cursor.number,
  );
  await openEventEpoch(sql);
  return sql.begin(async (tx) => {
    if (!(await holdEpoch(tx, network, term.epoch))) throw new FencedError(network);
    await nameOldDecisions(tx, network);
    await takeSnapshot(tx, network);
    await keepDecisions(tx, network);
    await keepRowIds(tx, network);
    await keepBoundTransfers(tx, network);
    const confirmedTo = await findConfirmedBlock(tx, network);
    // first reset links to their state without any transfer, because only unpaid links can be paid
    await recomputeLinkStatus(tx, {
      linkIds: await dropChainRows(tx, network),
      isReorg: false,
      mismatchMinUnits: term.mismatchMinUnits,
    });
    const { touched, transfers } = await replay(tx, term, { from: fromBlock, confirmedTo });
    await restoreRowIds(tx);
    await matchPastClaims(tx);
    await recomputeLinkStatus(tx, {
      linkIds: touched,
      isReorg: false,
      mismatchMinUnits: term.mismatchMinUnits,
    });
    await applyUnappliedTransfers(tx, term);
    const depthNumber = Math.max(newestConfirmedBlock(cursor.number, term.confirmations), confirmedTo);
    const depth = { network, depthNumber };
    await writeIsolating(term, tx, (part, isolate) =>
      isolate ? confirmOperationsIsolated(part, depth, isolate) : confirmDeepOperations(part, depth),
    );
    await dropOwnEvents(tx);
    const differences = await compareWithSnapshot(tx, network);
    return { fromBlock, toBlock: cursor.number, transfers, differences };
  });
}

async function assertOnChain({ chain, network, sql }: Term): Promise<void> {
  const row = await findCursor(sql, network);
  const header = row && (await readHeader(chain, Number(row.number)));
  if (row && header?.hash === row.hash) return;
  throw new Error(
    `${network}: the cursor's block ${row?.number} ${row?.hash} is not on the node's chain. Let the indexer undo the reorganisation first, or correct the RPC URL.`,
  );
}

/**
 * All blocks from `from` to the cursor, in order, through the same rules as at the head. Those up to `confirmedTo` are deep enough, however few
 * are above them.
 */
async function replay(
  tx: OpenTransaction,
  term: Term,
  { from, confirmedTo }: { from: number; confirmedTo: number },
): Promise<{ touched: string[]; transfers: number }> {
  const { network, cursor, watched, confirmations } = term;
  const touched = new Set<string>();
  let transfers = 0;
  for await (const read of readAll(term, from)) {
    await assertRead(tx, term, read);
    const isWatched = (address: Hex) => watched.has(address);
    const isRecipient = await findRecipients(term, read, isWatched);
    const blocks = await withLostOperations(term, await withTags(term, read, isRecipient));
    const times = await readTimes(term, blocks);
    const settling = {
      network,
      transfers: blocks.flatMap((block) => block.transfers),
      spent: blocks.flatMap((block) => block.spent),
      operations: blocks.flatMap((block) => block.operations),
      isWatched,
      isRecipient,
      findPriorAttributions: (incoming: readonly SeenTransfer[]) =>
        findPriorAttributions(tx, network, incoming),
      findPastBound: findPastBoundTransfers,
      // events written by the rebuild are deleted: they were already written when the transfers were first read
      bulk: { eventsFromS: Number.POSITIVE_INFINITY },
      confirmedAtS(number: number) {
        const confirming = confirmingBlock(number, confirmations);
        if (confirming <= cursor.number) return times.get(confirming);
        return number <= confirmedTo ? times.get(number) : undefined;
      },
    };
    const { linkIds } = await writeIsolating(term, tx, (part, isolate) =>
      settleTransfers(part, { ...settling, isolate }),
    );
    for (const id of linkIds) touched.add(id);
    transfers += blocks.reduce((sum, block) => sum + block.transfers.length, 0);
    term.log.info({ network, block: blocks.at(-1)?.block.number, transfers }, "rebuilding");
  }
  return { touched: [...touched], transfers };
}

/** A node can still answer from a branch that was replaced, and what its blocks held must not be booked again. */
async function assertRead(tx: OpenTransaction, term: Term, read: readonly BlockContent[]): Promise<void> {
  const near = read
    .map(({ block }) => block)
    .filter(({ number }) => number > term.cursor.number - KEPT_BLOCKS);
  await assertSameBranch(tx, term, near, await findAnchors(term, near));
}

async function* readAll(term: Term, from: number): AsyncGenerator<BlockContent[]> {
  const { chain, cursor, watched } = term;
  if (watched.size <= FILTERED_WALLETS_MAX) {
    const addresses: Hex[] = [...watched];
    const past = { from, to: cursor.number, addresses, anchor: cursor };
    for await (const { blocks } of readPast(chain, past)) if (blocks.length > 0) yield blocks;
    return;
  }
  let before: BlockHeader | undefined;
  for (let start = from; start <= cursor.number; start += DENSE_BLOCKS) {
    const to = Math.min(cursor.number, start + DENSE_BLOCKS - 1);
    const blocks = await readRange(chain, { from: start, to }, watchOf(watched));
    const [first, last] = [blocks.at(0)?.block, blocks.at(-1)?.block];
    if (before && first?.parentHash !== before.hash)
      throw new OtherBranchError(
        `block ${start} does not follow block ${before.number} ${before.hash}, which was read`,
      );
    before = last;
    if (to === cursor.number && last?.hash !== cursor.hash)
      throw new OtherBranchError(`block ${to} is ${last?.hash} now, but ${cursor.hash} was read`);
    yield blocks.filter(isOurs);
  }
}

/** Times of the blocks that made these deep enough. */
async function readTimes(term: Term, blocks: readonly BlockContent[]): Promise<Map<number, number>> {
  const times = new Map(blocks.map(({ block }) => [block.number, block.timeS]));
  for (const { block } of blocks) {
    const number = confirmingBlock(block.number, term.confirmations);
    if (times.has(number) || number > term.cursor.number) continue;
    const header = await readHeader(term.chain, number);
    if (!header) throw new RpcTransportError("not-ready", `no node knows block ${number}`);
    times.set(number, header.timeS);
  }
  return times;
}
