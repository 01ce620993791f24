/** Everything known about one link. */
import type { Answer } from "../frame/service.ts";

export type LinkData = Answer<"GET /v1/payment-links/{id}">;
export type PublicData = Answer<"GET /api/v1/public/payment-links/{linkId}/data">;
export type Refunds = Answer<"GET /v1/payment-links/{id}/refunds">;

/** The evidence that a payment is for this link. */
export const SETTLED_BY: Readonly<Record<NonNullable<LinkData["settledBy"]>, string>> = {
  authorization: "the payer's signed authorization",
  tag: "a mark in the transfer",
  proof: "the payer's proof",
  early_claim: "the payer's claim",
  pay_amount: "the exact amount requested",
  amount: "the plain amount",
  merchant: "your assignment",
};

/** Refunds requested by somebody without a passkey of the wallet and not signed by an owner. */
export function openRequests({ refunds }: Refunds) {
  return refunds.filter(
    ({ status, requestedBy }) => requestedBy && (status === "REQUESTED" || status === "AWAITING_SIGNATURE"),
  );
}
