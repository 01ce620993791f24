import { unreachable } from "./unreachable.ts";

/**
 * The evidence that attributed a transfer to its link (attribute-transfers.ts), strongest first; only the merchant's own assignment,
 * "merchant", comes before all others.
 */
export const SETTLED_BY = [
  "authorization",
  "tag",
  "proof",
  "early_claim",
  "pay_amount",
  "amount",
  "merchant",
] as const;
export type SettledBy = (typeof SETTLED_BY)[number];

/** Attributions by inference: a proof may move them while their link is PENDING. */
export function isInferred(settledBy: SettledBy | null | undefined): boolean {
  if (settledBy == null) return true;
  switch (settledBy) {
    case "early_claim":
    case "pay_amount":
    case "amount":
      return true;
    case "authorization":
    case "tag":
    case "proof":
    case "merchant":
      return false;
    default:
      return unreachable(settledBy);
  }
}

/** Attributions that the merchant may revoke. All others were proven by the payer or by us. */
export function isRevocable(settledBy: SettledBy): boolean {
  switch (settledBy) {
    case "merchant":
    case "amount":
    case "early_claim":
      return true;
    case "authorization":
    case "tag":
    case "proof":
    case "pay_amount":
      return false;
    default:
      return unreachable(settledBy);
  }
}
