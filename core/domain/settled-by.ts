/** What decided that a transfer belongs to its link, strongest first after the merchant's own hand (attribute-transfers.ts). */
export const SETTLED_BY = [
  "authorization",
  "tag",
  "proof",
  "early_claim",
  "pay_amount",
  "amount",
  "merchant",
] as const;
/** What decided that a transfer belongs to its link. */
export type SettledBy = (typeof SETTLED_BY)[number];

/** Attributions that rest on inference: a proof may move them while their link is PENDING. */
const INFERRED: readonly SettledBy[] = ["early_claim", "pay_amount", "amount"];

export function isInferred(settledBy: SettledBy | null | undefined): boolean {
  return settledBy == null || INFERRED.includes(settledBy);
}
