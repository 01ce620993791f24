/** How long a payer's word holds a link, and when the chain is looked at for it. Seconds since the claim. */
export const CLAIM_LEASE_S = 90;
export const CLAIM_LOOKS_AT_S = [2, 4, 8, 16, 32, 64] as const;

/** Seconds until the next look; after the last, until the lease is over. At least one. */
export function nextLookInS(ageS: number): number {
  const next = CLAIM_LOOKS_AT_S.find((atS) => atS > ageS + 0.5) ?? CLAIM_LEASE_S + 1;
  return Math.max(1, next - ageS);
}
