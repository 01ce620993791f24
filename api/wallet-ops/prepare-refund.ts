/** Prepares a refund: its part of the link's money is reserved under the link's lock before it is signed. */
import { conflict } from "../../core/domain/errors.ts";
import { newRefundId } from "../../core/domain/ids.ts";
import { linkTag } from "../../core/domain/link-tag.ts";
import { refundableUnits } from "../../core/domain/refund.ts";
import type { PaymentLink, User } from "../../db/schema.ts";
import { listRefundable } from "../../db/wallet-ops/list-refundable.ts";
import { lockRefund } from "../../db/wallet-ops/refund-requests.ts";
import { insertRefund, lockForRefunds, type RefundView } from "../../db/wallet-ops/refunds.ts";
import type { ApiDeps } from "../http/deps.ts";
import { getEnabledChain } from "../wallets/enabled-network.ts";
import {
  type AskedRefund,
  getRefundedLink,
  readRefundChoice,
  refuseAboveRefundable,
  senderWarnings,
  toNewRefund,
} from "./choose-refund.ts";
import { findReplay, type Prepared, prepareOperation } from "./prepare-operation.ts";

/** Throws NOT_FOUND for another user's link, CONFLICT when nothing or too little is left, VALIDATION_ERROR when the recipient is ambiguous. */
export async function prepareRefund(deps: ApiDeps, asked: AskedRefund & { signer: User }): Promise<Prepared> {
  const { signer, linkId, body, idempotencyKey, requestId } = asked;
  const { link, wallet } = await getRefundedLink(deps, asked);
  const chain = getEnabledChain(deps, link.network);
  const same = { kind: "REFUND" as const, request: { linkId, ...body }, idempotencyKey };
  // before checking what is left, because the refund itself reduced it
  const replay = await findReplay(deps, { ...same, wallet });
  if (replay) return { operation: replay, isReplay: true };
  const chosen = await readRefundChoice(deps.sql, { link, wallet }, asked);
  const { to, toSource, amountUnits } = chosen;
  const id = newRefundId(new Date());
  const refund = toNewRefund(chosen, { id, link, body });
  return prepareOperation(deps, chain, {
    ...{ ...same, id, wallet, signer, requestId },
    items: [{ to, amountUnits, note: "", isFee: false }],
    refundedLink: { tag: linkTag(linkId) },
    extraWarnings: ({ areContracts }) =>
      toSource === "transfer_sender" ? senderWarnings(to, areContracts[0] ?? false) : [],
    reserve: async (tx) => {
      await lockForRefunds(tx, linkId);
      await refuseAboveRefundable(tx, refund);
      await insertRefund(tx, refund);
    },
  });
}

/**
 * Prepares a requested refund; can be repeated with the same id while it is unsigned. Throws CONFLICT when it was
 * prepared without a request, signed, or cancelled, and when less is left now than was requested.
 */
export async function prepareRequested(
  deps: ApiDeps,
  { user, signer, refund, requestId }: { user: User; signer: User; refund: RefundView; requestId: string },
): Promise<Prepared> {
  const { id, linkId, toAddress: to, toSource, amountUnits, status } = refund;
  const isOpen = status === "REQUESTED" || status === "AWAITING_SIGNATURE";
  if (refund.requestedBy === null || !isOpen) throw notPreparable(status);
  const { link, wallet } = await getRefundedLink(deps, { user, linkId });
  return prepareOperation(deps, getEnabledChain(deps, link.network), {
    id,
    kind: "REFUND",
    wallet,
    signer,
    requestId,
    renews: true,
    request: { refundId: id },
    idempotencyKey: undefined,
    items: [{ to, amountUnits, note: "", isFee: false }],
    refundedLink: { tag: linkTag(linkId) },
    extraWarnings: ({ areContracts }) =>
      toSource === "transfer_sender" ? senderWarnings(to, areContracts[0] ?? false) : [],
    reserve: async (tx) => {
      await lockForRefunds(tx, linkId);
      if (!(await lockRefund(tx, id))) throw notPreparable("CANCELLED");
      await refuseAboveRefundable(tx, refund);
    },
  });
}

function notPreparable(status: RefundView["status"]) {
  return conflict(
    `Only a refund that was requested and is not signed can be prepared; this one is ${status}`,
    {
      field: "status",
      issue: status,
    },
  );
}

/** What may still be refunded of a link. */
export async function readRefundable({ sql }: Pick<ApiDeps, "sql">, link: Pick<PaymentLink, "id">) {
  return refundableUnits(await listRefundable(sql, link.id));
}
