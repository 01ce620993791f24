/** A merchant assigns a received transfer to a link, or unassigns it. One SQL transaction, during which the indexer writes nothing. */

import { CLAIM_LEASE_S } from "../../core/domain/claim.ts";
import { conflict, invalid, notFound } from "../../core/domain/errors.ts";
import { isRevocable, type SettledBy } from "../../core/domain/settled-by.ts";
import { directionOf, type HistoryRow } from "../../core/domain/transaction.ts";
import { recordSecurityEvent } from "../../db/accounts/security-events.ts";
import { recordEvents } from "../../db/events/events.ts";
import { enqueue } from "../../db/jobs/queue.ts";
import {
  type AssignableLink,
  type AssignableTransfer,
  findAssignableLink,
  findAssignableTransfer,
  lockCursor,
  matchClaimsOf,
  reopenClaims,
  saveAssignment,
} from "../../db/ledger/assignments.ts";
import { lockLinks } from "../../db/links/lock-links.ts";
import { recomputeLinkStatus } from "../../db/links/recompute-link-status.ts";
import { assignTransfers } from "../../db/payments/retroactive-attribution.ts";
import type { Sql, Tx } from "../../db/postgres/client.ts";
import { notify } from "../../db/postgres/notifications.ts";
import { findTransaction } from "../../db/transactions/transactions.ts";
import { hasLiveRefunds } from "../../db/wallet-ops/list-refundable.ts";
import type { Trace } from "../http/audit-trace.ts";

/** `mismatchMinUnits`: a smaller transfer of a wrong amount does not set an exception on the link. */
export type Asked = {
  mismatchMinUnits: bigint;
  transactionId: string;
  userId: string;
  trace: Trace;
};

/**
 * Attributes a transfer to a link of the same wallet. It pays the link if that is unpaid and the value fits or the merchant accepts another
 * value. Throws NOT_FOUND, VALIDATION_ERROR `other_wallet`, and CONFLICT `not_confirmed`, `counted_elsewhere` or `payment_in_progress`.
 */
export function assignTransaction(
  sql: Sql,
  asked: Asked & { linkId: string; accept: boolean },
): Promise<HistoryRow> {
  const { linkId, accept, userId } = asked;
  return sql.begin(async (tx) => {
    const transfer = await lockTransfer(tx, asked, [linkId]);
    const link = await findAssignableLink(tx, { linkId, userId });
    if (!link) throw notFound("Payment link");
    if (link.recipient !== transfer.recipient || link.network !== transfer.network)
      throw invalid(
        "linkId",
        "other_wallet",
        "The link is paid into another wallet than the one that received this transfer",
      );
    if (transfer.linkId === linkId && transfer.settledBy === "merchant") return getTransaction(tx, asked);
    if (transfer.linkId !== null)
      throw refused("counted_elsewhere", "This transfer is already attributed to a link; unassign it first");
    if (transfer.isFacilitated)
      throw refused("counted_elsewhere", "This transfer paid for another resource through the facilitator");
    if (link.hasLivePayment)
      throw refused(
        "payment_in_progress",
        "A payment for this link is in progress; assign the transfer when it has ended",
      );
    const pays = paysLink(link, transfer, accept);
    await saveAssignment(tx, { ...transfer, userId, linkId, accept });
    await book(tx, transfer, { linkId, pays, settledBy: "merchant" });
    await matchClaimsOf(tx, { ...transfer, linkId });
    return finish(tx, asked, { linkId, type: "transaction.assigned", data: { linkId, pays } });
  });
}

/** Detaches a transfer from its link. Throws NOT_FOUND, and CONFLICT `not_assigned`, `has_refunds` or `settled_by_evidence`. */
export function unassignTransaction(sql: Sql, asked: Asked): Promise<HistoryRow> {
  return sql.begin(async (tx) => {
    const transfer = await lockTransfer(tx, asked, []);
    const { linkId, settledBy } = transfer;
    const link = linkId === null ? undefined : await findAssignableLink(tx, { linkId, userId: asked.userId });
    if (linkId === null || !link) throw refused("not_assigned", "This transfer is not attributed to a link");
    if (link.refundedUnits > 0n || (await hasLiveRefunds(tx, linkId)))
      throw refused("has_refunds", "This link has refunds, so its transfer cannot be unassigned");
    if (settledBy === null || !isRevocable(settledBy) || transfer.paymentId !== null)
      throw refused(
        "settled_by_evidence",
        `This transfer was settled by ${settledBy}, which cannot be undone`,
      );
    await saveAssignment(tx, { ...transfer, userId: asked.userId, linkId: undefined, accept: false });
    await book(tx, transfer, { linkId: undefined, pays: false, settledBy: undefined });
    const { txHash, network } = transfer;
    const reopened = await reopenClaims(tx, { linkId, txHash, network, leaseS: CLAIM_LEASE_S });
    for (const claimId of reopened) await enqueue(tx, "check_claim", { claimId });
    return finish(tx, asked, { linkId, type: "transaction.unassigned", data: { linkId } });
  });
}

type LockedTransfer = AssignableTransfer & { transferId: bigint };

async function lockTransfer(tx: Tx, asked: Asked, linkIds: readonly string[]): Promise<LockedTransfer> {
  const seen = await findAssignableTransfer(tx, asked);
  if (!seen) throw notFound("Transaction");
  await lockCursor(tx, seen.network);
  const current = await findAssignableTransfer(tx, asked);
  await lockLinks(tx, [...linkIds, ...(current?.linkId ? [current.linkId] : [])]);
  const { transferId } = current ?? seen;
  if (
    !current ||
    directionOf(current.type) === "out" ||
    transferId === null ||
    current.status !== "CONFIRMED"
  )
    throw refused("not_confirmed", "Only a received transfer that is CONFIRMED can be assigned");
  return { ...current, transferId };
}

function paysLink(link: AssignableLink, { amountUnits }: AssignableTransfer, accept: boolean): boolean {
  const isExact = amountUnits === link.amountUnits || amountUnits === link.payAmountUnits;
  return !link.isTaken && link.status !== "CANCELLED" && (isExact || accept);
}

async function book(
  tx: Tx,
  { transferId }: LockedTransfer,
  to: { linkId: string | undefined; pays: boolean; settledBy: SettledBy | undefined },
): Promise<void> {
  await assignTransfers(tx, [{ transferId, paymentId: undefined, claimId: undefined, ...to }]);
}

async function finish(
  tx: Tx,
  asked: Asked,
  done: {
    linkId: string;
    type: "transaction.assigned" | "transaction.unassigned";
    data: Record<string, string | boolean>;
  },
): Promise<HistoryRow> {
  const { userId, transactionId, trace, mismatchMinUnits } = asked;
  await recomputeLinkStatus(tx, { linkIds: [done.linkId], isReorg: false, mismatchMinUnits });
  const row = await getTransaction(tx, asked);
  const data = { ...done.data, txHash: row.txHash };
  await recordEvents(tx, [{ userId, type: done.type, subjectId: transactionId, data }]);
  const type = done.type === "transaction.assigned" ? "transfer_assigned" : "transfer_unassigned";
  await recordSecurityEvent(tx, { userId, type, ...trace, details: { transactionId, linkId: done.linkId } });
  await notify(tx, [done.linkId]);
  return row;
}

async function getTransaction(tx: Tx, { transactionId, userId }: Asked): Promise<HistoryRow> {
  const row = await findTransaction(tx, { id: transactionId, userId });
  if (!row) throw notFound("Transaction");
  return row;
}

function refused(issue: string, message: string) {
  return conflict(message, { field: "transactionId", issue });
}
