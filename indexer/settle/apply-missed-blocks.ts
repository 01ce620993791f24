/** Commits transfers of blocks below the cursor that were missed at the time: their wallet was not followed yet, or a node left them out. */
import { authorizationKey } from "../../core/domain/authorization.ts";
import { confirmingBlock, newestConfirmedBlock } from "../../core/domain/confirmations.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import type { BlockPoint } from "../../db/ledger/cursors.ts";
import { holdEpoch } from "../../db/ledger/leader-epoch.ts";
import { findBookedLogs } from "../../db/ledger/reconciliation.ts";
import { discardSums } from "../../db/ledger/running-sums.ts";
import { lockLinks } from "../../db/links/lock-links.ts";
import { recomputeLinkStatus } from "../../db/links/recompute-link-status.ts";
import type { Tx } from "../../db/postgres/client.ts";
import { notify } from "../../db/postgres/notifications.ts";
import { confirmDeepOperations } from "../../db/wallet-ops/confirm-operations.ts";
import { findRecordedEvents } from "../../db/wallet-ops/missed-events.ts";
import { findLinksRefundedBy, queueCreditNotes } from "../../db/wallet-ops/refunds.ts";
import { bulkOf, FencedError, type Term } from "../leader-term.ts";
import { readHeader } from "../source/block-header.ts";
import type { BlockContent, SeenTransfer } from "../source/decode-logs.ts";
import { findRecipients } from "../source/find-recipients.ts";
import { placeOf, placeOfSeen } from "../source/log-place.ts";
import { withLostOperations } from "../source/read-lost-operations.ts";
import { withTags } from "../source/read-tags.ts";
import { confirmOperationsIsolated } from "./confirm-operations.ts";
import { commitIsolating, type Isolate } from "./isolate-refused-records.ts";
import { accountChangesOf, reportWalletChanges, storeAccountChanges } from "./report-wallet-changes.ts";
import { assertSameBranch, findAnchors } from "./same-branch.ts";
import { settleTransfers } from "./settle-transfers.ts";

/**
 * Returns the number of new transfers and operations. `read` must be in order and proven. `unsettled`: keys of authorizations whose facilitated
 * payments these blocks settle, although neither side is a wallet of ours.
 */
export async function applyMissedBlocks(
  term: Term,
  read: readonly BlockContent[],
  isWatched: Term["watched"]["has"],
  unsettled: ReadonlySet<string> = new Set(),
): Promise<number> {
  // blocks above the cursor are read and booked by the follower
  const below = read.filter(({ block }) => block.number <= term.cursor.number);
  if (below.length === 0) return 0;
  const times = await readConfirmationTimes(term, below);
  const anchors = await findAnchors(
    term,
    below.map(({ block }) => block),
  );
  const isRecipient = await findRecipients(term, below, isWatched);
  const blocks = await withLostOperations(term, await withTags(term, below, isRecipient));
  const prepared = { times, anchors, blocks, isWatched, isRecipient, unsettled };
  return commitIsolating(term, `missed ${blocks[0]?.block.number}`, (isolateIn) =>
    term.sql.begin((tx) => writeMissed(tx, term, prepared, isolateIn?.(tx))),
  );
}

type Prepared = {
  times: ReadonlyMap<number, number>;
  anchors: readonly BlockPoint[];
  blocks: readonly BlockContent[];
  isWatched: Term["watched"]["has"];
  isRecipient: Term["watched"]["has"];
  unsettled: ReadonlySet<string>;
};

async function writeMissed(
  tx: Tx,
  term: Term,
  { times, anchors, blocks, isWatched, isRecipient, unsettled }: Prepared,
  isolate: Isolate | undefined,
): Promise<number> {
  const { network, epoch, confirmations } = term;
  // during the read or the wait for the row lock, a reorganisation may have moved the cursor below these blocks
  const cursor = await holdEpoch(tx, network, epoch);
  if (!cursor) throw new FencedError(network);
  const [from, to] = [blocks[0]?.block.number ?? 0, blocks.at(-1)?.block.number ?? 0];
  const depthNumber = newestConfirmedBlock(cursor.number, confirmations);
  await assertSameBranch(
    tx,
    term,
    blocks.map(({ block }) => block),
    anchors,
  );
  const booked = new Set((await findBookedLogs(tx, network, { from, to })).map(placeOf));
  const recorded = new Set((await findRecordedEvents(tx, network, { from, to })).map(placeOf));
  const own = blocks.filter(({ block }) => block.number <= cursor.number);
  const transfers = own.flatMap((content) => content.transfers);
  const operations = own.flatMap((content) => content.operations);
  const missing = transfers.filter((transfer) => !booked.has(placeOfSeen(transfer)));
  const facilitated = own
    .flatMap(({ spent }) => spent)
    .filter(({ payer, nonce }) => unsettled.has(authorizationKey(payer, nonce)));
  const depth = { network, depthNumber };
  const userOpHashes = operations.map(({ userOpHash }) => userOpHash);
  const refunded = await findLinksRefundedBy(tx, { ...depth, userOpHashes });
  const touched = await settleTransfers(tx, {
    network,
    transfers: missing,
    spent: [...authorizationsOf(missing), ...facilitated],
    operations,
    bookedTransfers: transfers.filter((transfer) => booked.has(placeOfSeen(transfer))),
    isWatched,
    isRecipient,
    confirmedAtS: (number) => (number <= depthNumber ? times.get(number) : undefined),
    bulk: bulkOf(term),
    lockedToo: refunded,
    isolate,
  });
  // already locked if transfers were attributed; otherwise the refunded ones would be locked after those of payments that ended
  if (refunded.length > 0) await lockLinks(tx, [...refunded, ...touched.linkIds]);
  await discardSums(
    tx,
    network,
    missing.flatMap(({ from, to }) => [from, to]),
  );
  await recomputeLinkStatus(tx, {
    linkIds: touched.linkIds,
    isReorg: false,
    mismatchMinUnits: term.mismatchMinUnits,
  });
  const confirmedOperationIds = await (isolate
    ? confirmOperationsIsolated(tx, depth, isolate)
    : confirmDeepOperations(tx, depth));
  if (missing.length > 0) await queueCreditNotes(tx, network, userOpHashes);
  await storeAccountChanges(tx, network, accountChangesOf(own), isolate);
  const reported = { network, after: from - 1, depthNumber: Math.min(to, depthNumber) };
  await reportWalletChanges(tx, reported, isolate);
  await notify(tx, [...touched.paymentIds, ...touched.operationIds, ...confirmedOperationIds]);
  return missing.length + operations.filter((operation) => !recorded.has(placeOfSeen(operation))).length;
}

/** Time of the block that made each block deep enough, for those that are. */
async function readConfirmationTimes(
  term: Term,
  blocks: readonly BlockContent[],
): Promise<Map<number, number>> {
  const times = new Map<number, number>();
  for (const { block } of blocks) {
    const deepNumber = confirmingBlock(block.number, term.confirmations);
    if (deepNumber > term.cursor.number) continue;
    const deep = deepNumber === block.number ? block : await readHeader(term.chain, deepNumber);
    if (!deep) throw new RpcTransportError("not-ready", `no node knows block ${deepNumber}`);
    times.set(block.number, deep.timeS);
  }
  return times;
}

function authorizationsOf(transfers: readonly SeenTransfer[]) {
  return transfers.flatMap(
    ({ from, to, authorizationNonce: nonce, txHash, logIndex, block, amountUnits }) => {
      const blockNumber = block.number;
      const transfer = { txHash, logIndex, blockNumber, blockTimeS: block.timeS, to, amountUnits };
      return nonce ? [{ payer: from, nonce, blockNumber, transfer }] : [];
    },
  );
}
