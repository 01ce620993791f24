/**
 * Settles payments and claims that were stored after the block that settles them was read. Evidence counts as if known then; inference does not: what
 * was ambiguous at its block stays so, however many of the links have closed since. Also handles released links.
 */
import { type Attribution, attributeTransfers } from "../../core/domain/attribute-transfers.ts";
import { authorizationKey } from "../../core/domain/authorization.ts";
import type { PaymentFacts } from "../../core/domain/ledger-snapshot.ts";
import { isInferred } from "../../core/domain/settled-by.ts";
import { loadPayments, loadSnapshot } from "../../db/ledger/attribution.ts";
import { holdEpoch } from "../../db/ledger/leader-epoch.ts";
import { disputeTransfers, findPendingLinks, releaseMatchedClaims } from "../../db/links/claim-proofs.ts";
import { findCountedClaims, matchCountedClaims } from "../../db/links/counted-claims.ts";
import { recomputeLinkStatus } from "../../db/links/recompute-link-status.ts";
import { findUnappliedTransfers } from "../../db/links/unapplied-transfers.ts";
import {
  assignTransfers,
  type BookedTransfer,
  findNamedTransfers,
  type RetroactiveAttribution,
} from "../../db/payments/retroactive-attribution.ts";
import type { Tx } from "../../db/postgres/client.ts";
import { notify } from "../../db/postgres/notifications.ts";
import { FencedError, type Term } from "../leader-term.ts";
import { applyUnappliedTransfers } from "./apply-unapplied-transfers.ts";
import { settlePaymentsAndClaims } from "./settle-payments.ts";

/** Settles what can be settled from the ledger alone. Cheap when there is nothing to settle. */
export async function settleRetroactively(term: Term): Promise<void> {
  const { sql, network } = term;
  if ((await findNamedTransfers(sql, network)).length > 0) {
    await write(term, async (tx) => settleNamed(tx, term, await findNamedTransfers(tx, network)));
  }
  if ((await findCountedClaims(sql, network)).length > 0)
    await write(term, async (tx) => {
      const linkIds = await findCountedClaims(tx, network);
      await matchCountedClaims(tx, network, linkIds);
      await recomputeLinkStatus(tx, { linkIds, isReorg: false, mismatchMinUnits: term.mismatchMinUnits });
    });
  if ((await findUnappliedTransfers(sql, network)).length > 0)
    await write(term, (tx) => applyUnappliedTransfers(tx, term));
}

async function write({ sql, network, epoch }: Term, work: (tx: Tx) => Promise<void>): Promise<void> {
  await sql.begin(async (tx) => {
    if (!(await holdEpoch(tx, network, epoch))) throw new FencedError(network);
    await work(tx);
  });
}

type Late = { transfer: BookedTransfer; attribution: Attribution };

async function settleNamed(tx: Tx, term: Term, booked: readonly BookedTransfer[]): Promise<void> {
  const { network } = term;
  const authorizations = booked.flatMap(({ from, authorizationNonce, txHash }) =>
    authorizationNonce ? [{ payer: from, nonce: authorizationNonce, txHash }] : [],
  );
  const payments = await loadPayments(tx, network, authorizations);
  const given = booked.map((one) => ({
    ...one,
    blockNumber: Number(one.blockNumber),
    blockTimeMs: one.blockTime.getTime(),
    authorizationNonce: one.authorizationNonce ?? undefined,
  }));
  const lockedToo = booked.flatMap(({ linkId }) => linkId ?? []);
  const snapshot = await loadSnapshot(tx, network, { transfers: given, payments, lockedToo });
  const verdicts = attributeTransfers(given, snapshot);
  const found = booked.flatMap((transfer, index): Late[] => {
    const attribution = decideLate(transfer, verdicts[index]?.attribution, payments);
    return attribution ? [{ transfer, attribution }] : [];
  });
  const { moved, disputed } = await sortByLink(tx, found);
  await assignTransfers(tx, moved.map(toLateAttribution));
  const outcomes = moved.map(({ transfer, attribution }) => ({
    ...attribution,
    txHash: transfer.txHash,
    logIndex: transfer.logIndex,
    blockNumber: Number(transfer.blockNumber),
    isConfirmed: transfer.status === "CONFIRMED",
  }));
  const deep = new Set(
    booked.flatMap(({ from, authorizationNonce, status }) =>
      authorizationNonce && status === "CONFIRMED" ? [authorizationKey(from, authorizationNonce)] : [],
    ),
  );
  const isDeep = ({ payer, nonce }: PaymentFacts) => deep.has(authorizationKey(payer, nonce));
  const settled = await settlePaymentsAndClaims(tx, network, { payments, outcomes, isDeep });
  const left = moved.flatMap(({ transfer, attribution }) =>
    transfer.linkId !== null && transfer.linkId !== attribution.linkId
      ? [{ linkId: transfer.linkId, txHash: transfer.txHash }]
      : [],
  );
  await releaseMatchedClaims(tx, left);
  const disputes = disputed.map(({ transfer, attribution }) => ({
    transferId: transfer.id,
    claimId: attribution.claimId,
    claimedLinkId: attribution.linkId,
  }));
  await disputeTransfers(tx, disputes);
  const linkIds = [
    ...settled.linkIds,
    ...left.map(({ linkId }) => linkId),
    ...disputes.map(({ claimedLinkId }) => claimedLinkId),
  ];
  await recomputeLinkStatus(tx, { linkIds, isReorg: false, mismatchMinUnits: term.mismatchMinUnits });
  await notify(tx, settled.paymentIds);
}

/** The new attribution of a booked transfer; undefined when nothing changes. */
function decideLate(
  transfer: BookedTransfer,
  attribution: Attribution | undefined,
  payments: readonly PaymentFacts[],
): Attribution | undefined {
  if (transfer.linkId === null) {
    const isOpenToIt =
      attribution && (attribution.settledBy === "early_claim" || !isInferred(attribution.settledBy));
    return isOpenToIt ? attribution : undefined;
  }
  const { from, amountUnits, authorizationNonce, linkId, pays, settledBy } = transfer;
  // the payer may have signed the same nonce for another value
  const payment = authorizationNonce
    ? payments.find(
        (one) =>
          authorizationKey(one.payer, one.nonce) === authorizationKey(from, authorizationNonce) &&
          one.amountUnits === amountUnits,
      )
    : undefined;
  if (payment?.linkId === linkId && settledBy !== null)
    return { linkId, pays, settledBy, paymentId: payment.id, settlesPayment: !payment.isFailed || pays };
  return attribution?.settledBy === "proof" && isInferred(settledBy) ? attribution : undefined;
}

/** A proof moves a transfer away from a PENDING link; from a PAID one only the merchant can. */
async function sortByLink(tx: Tx, found: readonly Late[]): Promise<{ moved: Late[]; disputed: Late[] }> {
  const leaving = found.flatMap(({ transfer, attribution }) =>
    transfer.linkId !== null && transfer.linkId !== attribution.linkId ? [transfer.linkId] : [],
  );
  const pending = new Set(await findPendingLinks(tx, leaving));
  const isMovable = ({ transfer, attribution }: Late) =>
    transfer.linkId === null || transfer.linkId === attribution.linkId || pending.has(transfer.linkId);
  return { moved: found.filter(isMovable), disputed: found.filter((late) => !isMovable(late)) };
}

function toLateAttribution({ transfer, attribution }: Late): RetroactiveAttribution {
  const { linkId, pays, settledBy, paymentId, claimId } = attribution;
  return { transferId: transfer.id, linkId, pays, settledBy, paymentId, claimId };
}
