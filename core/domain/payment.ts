/**
 * A payment is our relayed attempt to settle one ERC-3009 authorization for one link.
 *
 *   QUEUED --signed bytes stored--> SIGNED --handed to a node--> BROADCAST --seen in a canonical block--> MINED --N deep--> CONFIRMED
 *   QUEUED | SIGNED | BROADCAST --proven impossible--> FAILED(reason), link released
 *   MINED | CONFIRMED --block reorganised away--> QUEUED | SIGNED
 *
 * BROADCAST is never stored: a SIGNED payment whose relay was handed over reads as that (`db/payments/payments.ts`).
 *
 * Settled means: a canonical block holds AuthorizationUsed(payer, nonce) and its Transfer, whoever sent it.
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

/** Refusals of a payment: the documented x402 codes and the HTTP status each is answered with. */
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
