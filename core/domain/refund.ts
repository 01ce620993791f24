/**
 * Refunds of a link: which transfer's money goes back, how much, and to whom. Never more than was received: what is left of a transfer
 * is its amount minus those of its refunds that have moved money or still may, but no more than that difference for the whole link (`leftToRefund`);
 * a larger refund is refused (`chooseRefund`), and again under the link's lock when it is reserved (api/wallet-ops/choose-refund.ts).
 * Pure.
 */
import type { LinkException } from "./link.ts";
import type { Hex, NetworkId } from "./networks.ts";
import { OPERATION_STATES } from "./wallet-operation.ts";

export const REFUND_SOURCES = ["x402_payer", "transfer_sender", "given"] as const;
/** Who is refunded: the authorization's signer, the sender of a plain transfer, or an address the merchant gave. */
export type RefundSource = (typeof REFUND_SOURCES)[number];
export const REFUND_REASON_MAX_CHARS = 500;

/** REQUESTED: not yet signed by an owner of the wallet. The other states are those of its operation. */
export const REFUND_STATES = ["REQUESTED", ...OPERATION_STATES] as const;
export type RefundState = (typeof REFUND_STATES)[number];

/** Maximum open requests per link. */
export const REFUND_REQUESTS_MAX = 50;

export type Refund = {
  id: string;
  userId: string;
  linkId: string;
  network: NetworkId;
  paidTxHash: Hex;
  paidLogIndex: number;
  toAddress: Hex;
  toSource: RefundSource;
  amountUnits: bigint;
  reason: string | null;
  /** The user or API key that requested it; null when an owner prepared it directly. */
  requestedBy: string | null;
  cancelledAt: Date | null;
  createdAt: Date;
};

/** What a link has received in CONFIRMED transfers, and what refunds have taken of it; `transfer…` of one transfer, `link…` of all. */
export type RefundSums = {
  transferUnits: bigint;
  transferRefundedUnits: bigint;
  linkUnits: bigint;
  linkRefundedUnits: bigint;
};

/**
 * What may still be refunded of a transfer: limited by the transfer and by the whole link, since a refunded transfer may be missing, or
 * have changed in a reorganisation (db/wallet-ops/reorganised-refunds.ts). Negative when a refunded transfer no longer exists.
 */
export function leftToRefund(sums: RefundSums): bigint {
  const ofTransfer = sums.transferUnits - sums.transferRefundedUnits;
  const ofLink = sums.linkUnits - sums.linkRefundedUnits;
  if (ofLink < ofTransfer) return ofLink;
  return ofTransfer;
}

/** A CONFIRMED transfer booked on a link. */
export type RefundableTransfer = {
  txHash: Hex;
  logIndex: number;
  sender: Hex;
  amountUnits: bigint;
  /** Whether it is the transfer that pays the link. */
  pays: boolean;
  /** Whether it executed an authorization, which its sender signed. */
  isAuthorization: boolean;
  transactionId: string | null;
  /** The amount not yet refunded or reserved. */
  leftUnits: bigint;
};

export type RefundRequest = {
  transactionId: string | undefined;
  toAddress: Hex | undefined;
  amountUnits: bigint | undefined;
};

export type RefundChoice =
  | { ok: true; transfer: RefundableTransfer; amountUnits: bigint; to: Hex; toSource: RefundSource }
  | { ok: false; issue: "nothing_to_refund" | "payer_ambiguous" | "unknown_transaction" }
  | { ok: false; issue: "exceeds_refundable"; refundableUnits: bigint };

/**
 * Refunds are per transfer, so that no payer receives another payer's money. Without `transactionId`: the only transfer with something left; the
 * second, if the link was paid twice; otherwise there must be only one address to refund to. The amount defaults to all that is left, or to the
 * surplus of an overpaid link.
 */
export function chooseRefund(
  link: { amountUnits: bigint; exception: LinkException },
  transfers: readonly RefundableTransfer[],
  request: RefundRequest,
): RefundChoice {
  const transfer = chooseTransfer(link, transfers, request);
  if (typeof transfer === "string") return { ok: false, issue: transfer };
  const amountUnits = request.amountUnits ?? defaultAmount(link, transfer);
  if (amountUnits > transfer.leftUnits)
    return { ok: false, issue: "exceeds_refundable", refundableUnits: transfer.leftUnits };
  if (request.toAddress) return { ok: true, transfer, amountUnits, to: request.toAddress, toSource: "given" };
  const toSource = transfer.isAuthorization ? "x402_payer" : "transfer_sender";
  return { ok: true, transfer, amountUnits, to: transfer.sender, toSource };
}

function chooseTransfer(
  { exception }: { exception: LinkException },
  transfers: readonly RefundableTransfer[],
  { transactionId, toAddress, amountUnits = 1n }: RefundRequest,
): RefundableTransfer | "nothing_to_refund" | "payer_ambiguous" | "unknown_transaction" {
  if (transactionId !== undefined) {
    const named = transfers.find((transfer) => transfer.transactionId === transactionId);
    if (!named) return "unknown_transaction";
    return named.leftUnits > 0n ? named : "nothing_to_refund";
  }
  const open = transfers.filter(({ leftUnits }) => leftUnits > 0n);
  const [first, second] = open;
  if (!first) return "nothing_to_refund";
  if (!second) return first;
  const surplus = open.filter(({ pays }) => !pays);
  const [only] = surplus;
  if (exception === "DUPLICATE" && only && surplus.length === 1) return only;
  if (!toAddress) return "payer_ambiguous";
  return open.find(({ leftUnits }) => leftUnits >= amountUnits) ?? first;
}

export function defaultAmount(
  { amountUnits, exception }: { amountUnits: bigint; exception: LinkException },
  { leftUnits }: RefundableTransfer,
): bigint {
  return exception === "OVERPAID" && leftUnits > amountUnits ? leftUnits - amountUnits : leftUnits;
}

/** What may still be refunded of all money the link received. */
export function refundableUnits(transfers: readonly RefundableTransfer[]): bigint {
  return transfers.reduce((sum, { leftUnits }) => (leftUnits > 0n ? sum + leftUnits : sum), 0n);
}
