/**
 * A payment is our relayed attempt to settle one ERC-3009 authorization for one link, or for another seller (without a link, through the
 * facilitator).
 *
 *   QUEUED --signed bytes stored--> SIGNED --handed to a node--> BROADCAST --seen in a canonical block--> MINED --N deep--> CONFIRMED
 *   SIGNED | BROADCAST --its transaction is lost, reverted or too late--> QUEUED
 *   QUEUED | SIGNED | BROADCAST --proven impossible--> FAILED(reason), link released
 *   FAILED --shown again, and none of our bytes can execute it--> QUEUED          FAILED --its transfer is seen and pays the link--> MINED
 *   MINED | CONFIRMED --block reorganised away--> QUEUED | SIGNED
 *
 * BROADCAST is never stored: a SIGNED payment whose relay was handed to a node reads as BROADCAST (`db/payments/payments.ts`).
 *
 * Settled means: a canonical block holds AuthorizationUsed(payer, nonce) and its Transfer, whoever sent the transaction.
 */
import { unreachable } from "./unreachable.ts";

export const PAYMENT_STATES = ["QUEUED", "SIGNED", "BROADCAST", "MINED", "CONFIRMED", "FAILED"] as const;
export type PaymentState = (typeof PAYMENT_STATES)[number];

/** A canonical block holds the payment's transfer. */
export function isSettled({ state }: { readonly state: PaymentState }): boolean {
  switch (state) {
    case "MINED":
    case "CONFIRMED":
      return true;
    case "QUEUED":
    case "SIGNED":
    case "BROADCAST":
    case "FAILED":
      return false;
    default:
      return unreachable(state);
  }
}

export const TRANSACTION_TYPES = ["SEND", "RECEIVE", "PAYMENT_LINK"] as const;
export type TransactionType = (typeof TRANSACTION_TYPES)[number];

export const TRANSACTION_STATUSES = ["PENDING", "DETECTED", "CONFIRMED", "FAILED", "ORPHANED"] as const;
export type TransactionStatus = (typeof TRANSACTION_STATUSES)[number];

/** Refusals of a payment: the documented x402 codes and their HTTP statuses. */
export const PAYMENT_REFUSALS = {
  INVALID_PAYLOAD_STRUCTURE: 400,
  INVALID_SIGNATURE: 400,
  EXPIRED_TRANSFER: 400,
  NOT_YET_VALID: 400,
  PAYMENT_NOT_ALLOWED: 403,
  NOT_FOUND: 404,
  NONCE_USED: 409,
  LINK_ALREADY_PAID: 409,
  PAYMENT_IN_PROGRESS: 409,
  IDEMPOTENCY_KEY_REUSED: 409,
  AMOUNT_EXCEEDS_MAXIMUM: 422,
  AMOUNT_BELOW_REQUIRED: 422,
  AMOUNT_REQUIRED: 422,
  RECIPIENT_MISMATCH: 422,
  NETWORK_MISMATCH: 422,
  LINK_NOT_PAYABLE: 422,
  INSUFFICIENT_FUNDS: 422,
  AMOUNT_TOO_SMALL_TO_RELAY: 422,
  RELAY_BUDGET_SPENT: 422,
  RATE_LIMITED: 429,
  INTERNAL_ERROR: 500,
} as const;
export type PaymentRefusal = keyof typeof PAYMENT_REFUSALS;

export type Refusal = { readonly reason: PaymentRefusal; readonly message: string };

/** `message`: when the case needs more detail than its reason. */
export function refusalOf(
  reason: PaymentRefusal,
  message: string = REFUSAL_MESSAGES[reason] ?? reason,
): Refusal {
  return { reason, message };
}

const REFUSAL_MESSAGES: Partial<Record<PaymentRefusal, string>> = {
  INVALID_SIGNATURE: "the signature is not the payer's",
  EXPIRED_TRANSFER: "the authorization has expired, or has too little time left to get into a block",
  NOT_YET_VALID: "the authorization is not valid yet",
  PAYMENT_NOT_ALLOWED:
    "the chain refuses this payment: an address is blocked, the token is paused, or the payer's transactions kept reverting",
  NOT_FOUND: "no payment link has this id",
  NONCE_USED: "the authorization has already been used or cancelled",
  LINK_ALREADY_PAID: "this link has already been paid",
  PAYMENT_IN_PROGRESS: "another payment for this link is in progress",
  // without the other payment's hash, which a caller would take for its own
  IDEMPOTENCY_KEY_REUSED:
    "this idempotency key was used for another payment of this link; this one was ignored",
  AMOUNT_EXCEEDS_MAXIMUM: "the authorization is for more than this link requires",
  AMOUNT_BELOW_REQUIRED: "the authorization is for less than this link requires",
  AMOUNT_REQUIRED:
    "the payer chooses the amount of this link: request again with ?amount= in USDC, at most 5 decimals",
  RECIPIENT_MISMATCH: "the authorization pays another address than this link's",
  INSUFFICIENT_FUNDS: "the payer's balance is too low",
  RELAY_BUDGET_SPENT: "the daily relay budget has no room for this payment",
};

/** Whether the payer can act on a payment's stored failure; all others are our own. */
export function isPaymentRefusal(reason: string): reason is PaymentRefusal {
  return reason in PAYMENT_REFUSALS && reason !== "INTERNAL_ERROR";
}

/** The x402 name for a refusal, or our code if there is none. */
export function standardReason(refusal: PaymentRefusal): string {
  return STANDARD_REASONS[refusal] ?? refusal;
}

const STANDARD_REASONS: Partial<Record<PaymentRefusal, string>> = {
  INVALID_SIGNATURE: "invalid_exact_evm_payload_signature",
  NONCE_USED: "invalid_exact_evm_nonce_already_used",
  EXPIRED_TRANSFER: "invalid_exact_evm_payload_authorization_valid_before",
  NOT_YET_VALID: "invalid_exact_evm_payload_authorization_valid_after",
  AMOUNT_EXCEEDS_MAXIMUM: "invalid_exact_evm_payload_authorization_value_mismatch",
  AMOUNT_BELOW_REQUIRED: "invalid_exact_evm_payload_authorization_value_mismatch",
  RECIPIENT_MISMATCH: "invalid_exact_evm_payload_recipient_mismatch",
  NETWORK_MISMATCH: "invalid_network",
  INSUFFICIENT_FUNDS: "insufficient_funds",
  INVALID_PAYLOAD_STRUCTURE: "invalid_payload",
};
