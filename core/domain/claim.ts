/**
 * A claim states that a transaction paid a link. Its states, for how long it holds the link PENDING (90 seconds; up to an hour while a
 * node knows the transaction), and when the chain is checked for it.
 */

/**
 *   OPEN --transfer attributed--> MATCHED          OPEN --disproved--> REJECTED          OPEN --lease over | link cancelled | place given--> EXPIRED
 *   OPEN, unproven --another link's claim names the transaction--> HINT: late or contested, holds nothing and decides nothing
 *   OPEN, unproven, late --its transfer fits several links when it is received--> HINT
 *   OPEN --proven, but its transfer has already paid another link--> DISPUTED: the merchant decides
 *   HINT | DISPUTED | EXPIRED --its transfer is attributed to its link all the same--> MATCHED; REJECTED never does
 *   MATCHED --block reorganised away--> OPEN          MATCHED --transfer moved to another link | unassigned--> EXPIRED
 *   DISPUTED --merchant unassigns the transfer from the other link--> OPEN
 */
export const CLAIM_STATES = ["OPEN", "HINT", "DISPUTED", "MATCHED", "REJECTED", "EXPIRED"] as const;
export type ClaimState = (typeof CLAIM_STATES)[number];

/** early: a claim stored before the block decides between links of the same amount. proven: only signed claims do. */
export const CLAIM_POLICIES = ["early", "proven"] as const;
export type ClaimPolicy = (typeof CLAIM_POLICIES)[number];

/** Seconds since the claim. */
export const CLAIM_LEASE_S = 90;
export const CLAIM_CHECKS_AT_S = [2, 4, 8, 16, 32, 64] as const;
/** A transaction that a node knows holds its link for this long after each poll, and no longer than KNOWN_MAX_S in all. */
export const KNOWN_LEASE_S = 90;
export const KNOWN_POLL_S = 30;
export const KNOWN_MAX_S = 3_600;

/** Seconds until the next check; after the last interval, until the lease expires. At least one. */
export function nextCheckInS(ageS: number): number {
  const next = CLAIM_CHECKS_AT_S.find((atS) => atS > ageS + 0.5) ?? CLAIM_LEASE_S + 1;
  return Math.max(1, next - ageS);
}
