/**
 * What to do with an authorization that a payer shows for a link, by the link's state, its other payments, relay limits and the payment
 * terms (check-payment-terms.ts). Pure: the link with its live payment and its paying transfer was read in one statement, and the
 * signature is not looked at. Between payers that come at once only the insert of the payment decides.
 *
 *   refuse          for a reason the payer can act on
 *   join            payer and nonce are those of the live payment that holds the link: its outcome is the answer
 *   paid-elsewhere  payer and nonce are those of the transfer that pays the link, for which there is no live payment
 *   accept          it may pay the link
 *
 * Payer and nonce are public once a block holds them: all but `refuse` take a valid signature before they are acted on.
 */
import type { Authorization } from "./authorization.ts";
import { checkTerms, windowTimeS } from "./check-payment-terms.ts";
import type { LinkStatus } from "./link.ts";
import { effectiveStatus } from "./link-expiry.ts";
import type { Hex, NetworkId } from "./networks.ts";
import { type PaymentRefusal, type Refusal, refusalOf } from "./payment.ts";
import { type RelayLimits, whyNotRelayed } from "./relay-budget.ts";
import { unreachable } from "./unreachable.ts";

export type PayableLink = {
  readonly id: string;
  readonly network: NetworkId;
  readonly recipient: Hex;
  readonly amountUnits: bigint;
  readonly description: string;
  readonly status: LinkStatus;
  readonly expiresAt: Date;
  /** Whether many payers pay it, each through a use; `amountUnits` is then the minimum when the payer chooses the amount. */
  readonly isReusable?: boolean;
  readonly minUnits?: bigint | null;
  readonly maxUnits?: bigint | null;
  /** Whether no place is left for another use: db/links/max-uses.ts. */
  readonly isUsedUp?: boolean | null;
  /** Whether its merchant lists it for agents. */
  readonly isDiscoverable?: boolean;
  /** The live payment that holds the link, if any, and the authorization it was accepted with. */
  readonly paymentId: string | null;
  readonly payer: Hex | null;
  readonly nonce: Hex | null;
  readonly payerKind: "EOA" | "CONTRACT" | null;
  readonly signature: Hex | null;
  readonly validAfter: bigint | null;
  readonly validBefore: bigint | null;
  readonly idempotencyKey: string | null;
  /** The transfer that pays it or is about to, perhaps not deep enough yet, and the authorization it executed. */
  readonly paidTxHash: Hex | null;
  readonly paidLogIndex: number | null;
  readonly paidFrom: Hex | null;
  readonly paidNonce: Hex | null;
  /** The link that the authorization's nonce names. */
  readonly taggedLinkId: string | null;
  /** Where the shown authorization was accepted before: at this link, or at another or by the facilitator. */
  readonly acceptedBefore: "HERE" | "ELSEWHERE" | null;
  /** A transfer in the ledger executed the shown authorization, which is public since. */
  readonly isExecuted: boolean;
  /** Gas that mined relays for its merchant used today, and the limit an operator gave that merchant. */
  readonly relayGasUsed: bigint;
  readonly relayGasOwnMaximum: bigint | null;
  /** Time of the newest block the indexer has seen on its network. */
  readonly chainTime: Date | null;
};

export type ShownPayment = {
  readonly authorization: Authorization;
  /** Undefined when the client named a network we don't know. */
  readonly network: NetworkId | undefined;
  readonly idempotencyKey: string | undefined;
};

/** What a stored payment's payer signed, and how. */
export type StoredAuthorization = {
  readonly payerKind: "EOA" | "CONTRACT";
  readonly signature: Hex;
  readonly recipient: Hex;
  readonly amountUnits: bigint;
  readonly validAfter: bigint;
  readonly validBefore: bigint;
};

export type AcceptanceDecision =
  | ({ readonly kind: "refuse" } & Refusal)
  | { readonly kind: "join"; readonly paymentId: string; readonly stored: StoredAuthorization }
  | { readonly kind: "paid-elsewhere"; readonly txHash: Hex; readonly logIndex: number | null }
  | { readonly kind: "accept" };

export function decideAcceptance(
  link: PayableLink,
  shown: ShownPayment,
  { now, limits }: { now: Date; limits: RelayLimits },
): AcceptanceDecision {
  if (link.taggedLinkId !== null && link.taggedLinkId !== link.id)
    return refuse("NONCE_USED", "this nonce belongs to another payment link");
  const known = findHolder(link, shown.authorization) ?? findPayingTransfer(link, shown.authorization);
  if (known && !isMeantFor(link, shown))
    return refuse("NONCE_USED", "this nonce belongs to another authorization of its payer");
  if (known) return known;
  if (shown.idempotencyKey !== undefined && shown.idempotencyKey === link.idempotencyKey)
    return refuse("IDEMPOTENCY_KEY_REUSED");
  const obstacle = findObstacle(link, limits, now);
  if (obstacle) return { kind: "refuse", ...obstacle };
  if (shown.network !== link.network)
    return refuse("NETWORK_MISMATCH", `this link is to be paid on ${link.network}`);
  const { recipient: payTo, amountUnits } = link;
  const terms = checkTerms(shown.authorization, { payTo, amountUnits }, windowTimeS(link.chainTime, now));
  return terms.ok ? { kind: "accept" } : refuse(terms.reason);
}

/** Why no payment of this link is accepted now; undefined when payments are accepted. */
export function findObstacle(link: PayableLink, limits: RelayLimits, now: Date): Refusal | undefined {
  return whyUnpayable(link, now) ?? whyNotRelayed(link, limits, now);
}

function whyUnpayable(link: PayableLink, now: Date): Refusal | undefined {
  const status = effectiveStatus(link, now);
  if (status === "PAID") return refusalOf("LINK_ALREADY_PAID");
  if (status === "ACTIVE" && link.isUsedUp) return refusalOf("LINK_ALREADY_PAID", NO_PLACE_LEFT);
  if (link.paymentId !== null || link.paidTxHash !== null) return refusalOf("PAYMENT_IN_PROGRESS");
  if (link.expiresAt <= now) return refusalOf("LINK_NOT_PAYABLE", EXPIRED);
  switch (status) {
    case "ACTIVE":
    case "PENDING":
      return undefined;
    case "EXPIRED":
      return refusalOf("LINK_NOT_PAYABLE", EXPIRED);
    case "CANCELLED":
      return refusalOf("LINK_NOT_PAYABLE", "this link was cancelled by its merchant");
    default:
      return unreachable(status);
  }
}

/** Of a reusable link with a maximum of payments: it may have a place again. */
export const NO_PLACE_LEFT = "all payments of this link are made or begun";
const EXPIRED = "this link has expired";

/** The live payment, when its payer signed with this nonce. The columns of a payment are null together. */
function findHolder(link: PayableLink, shown: Authorization): AcceptanceDecision | undefined {
  const { paymentId, payerKind, signature, validAfter, validBefore, recipient, amountUnits } = link;
  if (paymentId === null || link.payer !== shown.from || link.nonce !== shown.nonce) return undefined;
  if (payerKind === null || signature === null || validAfter === null || validBefore === null)
    throw new Error(`payment ${paymentId} was read without what its payer signed`);
  const stored = { payerKind, signature, recipient, amountUnits, validAfter, validBefore };
  return { kind: "join", paymentId, stored };
}

function findPayingTransfer(link: PayableLink, shown: Authorization): AcceptanceDecision | undefined {
  const { paidTxHash: txHash, paidLogIndex: logIndex } = link;
  if (txHash === null || link.paidFrom !== shown.from || link.paidNonce !== shown.nonce) return undefined;
  return { kind: "paid-elsewhere", txHash, logIndex };
}

function isMeantFor(link: PayableLink, { network, authorization }: ShownPayment): boolean {
  const { to, value } = authorization;
  return network === link.network && to === link.recipient && value === link.amountUnits;
}

function refuse(reason: PaymentRefusal, message?: string): AcceptanceDecision {
  return { kind: "refuse", ...refusalOf(reason, message) };
}
