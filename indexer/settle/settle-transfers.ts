/**
 * Applies a set of transfers to the ledger, inside the caller's transaction: attribution, payments, links, history. Used at the head, in
 * ranges, in backfills and in rebuilds.
 */

import { attributeTransfers, placeKey, type Verdict } from "../../core/domain/attribute-transfers.ts";
import { authorizationKey } from "../../core/domain/authorization.ts";
import type { PaymentFacts } from "../../core/domain/ledger-snapshot.ts";
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import { loadPayments, loadSnapshot, lockJudged } from "../../db/ledger/attribution.ts";
import { type Bulk, isPlain, storePlainTransfers } from "../../db/ledger/bulk-transfers.ts";
import type { Due } from "../../db/ledger/due-at-depth.ts";
import { moveAssignments } from "../../db/ledger/reorganised-assignments.ts";
import { hasEvidence } from "../../db/ledger/settlement-evidence.ts";
import { type NewTransfer, storeTransfers } from "../../db/ledger/transfers.ts";
import {
  findMisplacedProofs,
  type MisplacedProof,
  releaseMisplacedProofs,
} from "../../db/payments/misplaced-proofs.ts";
import { assignTransfers, type RetroactiveAttribution } from "../../db/payments/retroactive-attribution.ts";
import type { Tx } from "../../db/postgres/client.ts";
import type { FindBound } from "../../db/wallet-ops/missed-events.ts";
import { moveRefunds } from "../../db/wallet-ops/reorganised-refunds.ts";
import type { SeenOperation, SeenTransfer, SpentAuthorization } from "../source/decode-logs.ts";
import type { Isolate } from "./isolate-refused-records.ts";
import { NO_PRIOR_ATTRIBUTIONS, type PriorAttributions } from "./keep-rebuild-attributions.ts";
import { settleFacilitated } from "./settle-facilitated.ts";
import { settleSeenOperations } from "./settle-operations.ts";
import { settlePaymentsAndClaims } from "./settle-payments.ts";

export type Settling = {
  network: NetworkId;
  /** In the chain's order; all touch a watched wallet. */
  transfers: readonly SeenTransfer[];
  spent: readonly SpentAuthorization[];
  operations: readonly SeenOperation[];
  /** Already stored transfers of the same blocks, possibly stored before the operation that made them was known. */
  bookedTransfers?: readonly SeenTransfer[];
  isWatched: (address: Hex) => boolean;
  /** Also true for recipients of `transfers` that are wallets of ours without being watched (find-recipients.ts). */
  isRecipient?: (address: Hex) => boolean;
  /** Time of the block that confirms this height; undefined while there is none. */
  confirmedAtS: (blockNumber: number) => number | undefined;
  /** For history read in bulk: plain transfers are stored first, by a separate statement. */
  bulk?: Bulk | undefined;
  /** Decisions and refunds that wait for a transfer to come back from a reorganisation; looked up if absent. */
  due?: Pick<Due, "hasOrphanedAssignments" | "hasOrphanedRefunds">;
  /** Links that the caller will recompute in addition to the returned ones; see `loadSnapshot`. */
  lockedToo?: readonly string[];
  /** Given after the database has refused records of these blocks. */
  isolate?: Isolate | undefined;
  /** Looks up which earlier decisions about these transfers are kept. */
  findPriorAttributions?: (transfers: readonly SeenTransfer[]) => Promise<PriorAttributions>;
  /** Looks up which transfers belonged to items of sends. */
  findPastBound?: FindBound;
};

export type Touched = { linkIds: string[]; paymentIds: string[]; operationIds: string[] };

/** Stores the transfers with their links, settles payments and claims. The returned links still have to be recomputed. */
export async function settleTransfers(tx: Tx, settling: Settling): Promise<Touched> {
  const { network, transfers, spent, operations, confirmedAtS, isWatched } = settling;
  const { isRecipient = isWatched } = settling;
  const { hasOrphanedAssignments = true, hasOrphanedRefunds = true } = settling.due ?? {};
  if (transfers.length + spent.length + operations.length === 0)
    return { linkIds: [], paymentIds: [], operationIds: [] };
  // independent statements are pipelined: one round trip instead of two
  const [facilitated, payments] = await Promise.all([
    settleFacilitated(tx, network, {
      ...{ spent, confirmedAtS },
      incoming: transfers.filter(({ to }) => isRecipient(to)).map(toAttributable),
    }),
    loadPayments(tx, network, spent.map(toExecuted)),
    hasOrphanedAssignments && moveAssignments(tx, network, transfers, settling.bookedTransfers),
  ]);
  const incoming = transfers.filter(({ to, from, authorizationNonce: nonce }) => {
    const isElsewhere = nonce !== undefined && facilitated.keys.has(authorizationKey(from, nonce));
    return isRecipient(to) && !isElsewhere;
  });
  const prior = (await settling.findPriorAttributions?.(incoming)) ?? NO_PRIOR_ATTRIBUTIONS;
  // also of payments that ended without a transfer
  const lockedToo = [...(settling.lockedToo ?? []), ...payments.map(({ linkId }) => linkId)];
  const booked = settling.bookedTransfers ?? [];
  const returned =
    booked.length > 0
      ? await returnMisplaced(tx, network, { incoming, booked, payments, lockedToo })
      : NONE_RETURNED;
  const judged = [...incoming, ...returned.keys()].toSorted(inChainOrder);
  const verdicts = await attribute(tx, network, { transfers: judged, payments, prior, lockedToo });
  // after payments and links, which are always locked first
  await assignTransfers(tx, [...returned].map(toReattribution(verdicts)));
  const attributed = [...verdicts].flatMap(([{ txHash, logIndex, from, amountUnits }, { attribution }]) =>
    attribution ? [{ linkId: attribution.linkId, txHash, logIndex, from, amountUnits }] : [],
  );
  const { findPastBound } = settling;
  const seen = { operations, transfers, booked, attributed, findPastBound };
  const sent = await settleSeenOperations(tx, network, seen, settling.isolate);
  const rows = transfers.map((transfer) => ({
    ...toRow(transfer, verdicts.get(transfer), confirmedAtS),
    operationItemId: sent.items.get(transfer),
  }));
  const outcomes = [...verdicts].flatMap(([{ txHash, logIndex, block }, { attribution }]) => {
    const isConfirmed = confirmedAtS(block.number) !== undefined;
    return attribution ? [{ ...attribution, txHash, logIndex, blockNumber: block.number, isConfirmed }] : [];
  });
  const deep = new Set(
    spent.flatMap(({ payer, nonce, blockNumber }) =>
      confirmedAtS(blockNumber) === undefined ? [] : [authorizationKey(payer, nonce)],
    ),
  );
  const { bulk } = settling;
  const plain = bulk ? rows.filter(isPlain) : [];
  const [, , settled] = await Promise.all([
    bulk && storePlainTransfers(tx, network, plain, bulk),
    storeTransfers(tx, network, bulk ? rows.filter((row) => !isPlain(row)) : rows),
    settlePaymentsAndClaims(tx, network, {
      // a payment to a wallet that is not followed yet is handled when its blocks are read again
      payments: payments.filter((payment) => isWatched(payment.recipient)),
      outcomes,
      isDeep: ({ payer, nonce }) => deep.has(authorizationKey(payer, nonce)),
    }),
  ]);
  // to any of the transfers just stored, which may take several statements
  if (hasOrphanedRefunds) await moveRefunds(tx, network);
  const paymentIds = [...facilitated.paymentIds, ...settled.paymentIds];
  const linkIds = [...settled.linkIds, ...[...returned.values()].map(({ linkId }) => linkId)];
  return { linkIds, paymentIds, operationIds: sent.operationIds };
}

const NONE_RETURNED: ReadonlyMap<SeenTransfer, MisplacedProof> = new Map();

/** The stored transfers that proofs give up for some of `incoming`, detached from their links. */
async function returnMisplaced(
  tx: Tx,
  network: NetworkId,
  {
    incoming,
    booked,
    payments,
    lockedToo,
  }: Pick<Judged, "payments" | "lockedToo"> & {
    incoming: readonly SeenTransfer[];
    booked: readonly SeenTransfer[];
  },
): Promise<ReadonlyMap<SeenTransfer, MisplacedProof>> {
  const byPlace = new Map(booked.map((transfer) => [placeKey(transfer), transfer]));
  const toReturned = (proof: MisplacedProof) => {
    const transfer = byPlace.get(placeKey(proof));
    return transfer ? [[transfer, proof] as const] : [];
  };
  const found = new Map((await findMisplacedProofs(tx, network, incoming)).flatMap(toReturned));
  if (found.size === 0) return NONE_RETURNED;
  const proofs = [...found.values()];
  // together with those that the transfers may then pay: all links of a transaction are locked in one order
  await lockJudged(tx, network, {
    transfers: [...incoming, ...found.keys()].toSorted(inChainOrder).map(toAttributable),
    payments,
    lockedToo: [...lockedToo, ...proofs.map(({ linkId }) => linkId)],
  });
  const released = await releaseMisplacedProofs(tx, network, { transfers: incoming, found: proofs });
  return new Map(released.flatMap(toReturned));
}

function inChainOrder(one: SeenTransfer, other: SeenTransfer): number {
  return one.block.number - other.block.number || one.logIndex - other.logIndex;
}

function toReattribution(verdicts: ReadonlyMap<SeenTransfer, Verdict>) {
  return ([transfer, { transferId }]: readonly [SeenTransfer, MisplacedProof]): RetroactiveAttribution => {
    const { attribution, candidates = [] } = verdicts.get(transfer) ?? {};
    const { linkId, pays = false, settledBy, paymentId, claimId } = attribution ?? {};
    return { transferId, linkId, pays, settledBy, paymentId, claimId, candidates };
  };
}

/**
 * The rows of transfers if none of them concerns a link, payment, claim, assignment or operation; undefined when one might.
 * Locks nothing: what was added after their blocks were read is no evidence for them, and a commit of earlier blocks
 * only removes evidence.
 */
export async function findUnrelated(tx: Tx, settling: Settling): Promise<NewTransfer[] | undefined> {
  const { network, transfers, spent, operations, confirmedAtS } = settling;
  if (operations.length > 0) return undefined;
  const { isRecipient = settling.isWatched } = settling;
  const incoming = transfers.filter(({ to }) => isRecipient(to)).map(toAttributable);
  if (await hasEvidence(tx, network, { transfers: incoming, spent })) return undefined;
  return transfers.map((transfer) => ({
    ...toRow(transfer, undefined, confirmedAtS),
    operationItemId: undefined,
  }));
}

/** Stores what `findUnrelated` found. */
export async function storeUnrelated(
  tx: Tx,
  network: NetworkId,
  rows: readonly NewTransfer[],
  bulk: Bulk,
): Promise<void> {
  await Promise.all([
    storePlainTransfers(tx, network, rows.filter(isPlain), bulk),
    storeTransfers(
      tx,
      network,
      rows.filter((row) => !isPlain(row)),
    ),
  ]);
}

/** An authorization and the transaction that used it. */
function toExecuted({ payer, nonce, transfer }: SpentAuthorization) {
  return { payer, nonce, txHash: transfer?.txHash };
}

function toAttributable(transfer: SeenTransfer) {
  const { block } = transfer;
  return { ...transfer, blockNumber: block.number, blockTimeMs: block.timeS * 1000 };
}

function toRow(
  transfer: SeenTransfer,
  verdict: Verdict | undefined,
  confirmedAtS: Settling["confirmedAtS"],
): Omit<NewTransfer, "operationItemId"> {
  const { block } = transfer;
  const { attribution, candidates = [] } = verdict ?? {};
  return {
    ...transfer,
    blockNumber: block.number,
    blockHash: block.hash,
    blockTimeS: block.timeS,
    confirmedAtS: confirmedAtS(block.number),
    linkId: attribution?.linkId,
    pays: attribution?.pays ?? false,
    settledBy: attribution?.settledBy,
    candidates,
    paymentId: attribution?.paymentId,
    historyPaymentId: attribution?.settlesPayment ? attribution.paymentId : undefined,
    historyClaimId: attribution?.claimId,
  };
}

type Judged = {
  transfers: readonly SeenTransfer[];
  payments: readonly PaymentFacts[];
  prior: PriorAttributions;
  lockedToo: readonly string[];
};

async function attribute(
  tx: Tx,
  network: NetworkId,
  { transfers, payments, prior: { decided, takenLinks }, lockedToo }: Judged,
): Promise<Map<SeenTransfer, Verdict>> {
  const verdicts = new Map<SeenTransfer, Verdict>(decided);
  const open = transfers.filter((transfer) => !decided.has(transfer));
  if (open.length === 0) return verdicts;
  const given = open.map(toAttributable);
  const nonces = new Set(
    given.flatMap((one) =>
      one.authorizationNonce ? [authorizationKey(one.from, one.authorizationNonce)] : [],
    ),
  );
  const own = payments.filter((payment) => nonces.has(authorizationKey(payment.payer, payment.nonce)));
  const snapshot = await loadSnapshot(tx, network, {
    transfers: given,
    payments: own,
    takenLinks,
    lockedToo,
  });
  const usedClaims = new Set([...verdicts.values()].map(({ attribution }) => attribution?.claimId));
  const claims = snapshot.claims.filter(({ id }) => !usedClaims.has(id));
  const found = attributeTransfers(given, { ...snapshot, claims });
  for (const [index, transfer] of open.entries()) {
    const verdict = found[index];
    if (verdict) verdicts.set(transfer, verdict);
  }
  return verdicts;
}
