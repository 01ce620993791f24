/**
 * Which transfers are late: those in a block after their link's expiry. A late transfer pays an expired link in two cases
 * (attribute-transfers.ts):
 *
 *   - evidence names the link (an accepted authorization, a link tag, a proven claim, or the merchant's assignment), and the amount is
 *     exactly what the link asks for, unless the merchant's assignment accepts another; an authorization pays only while no other payment
 *     holds the link
 *   - no evidence names a link, it is the only unpaid link that fits the recipient and amount, no open one fits, and either the amount is
 *     the link's unique one or its merchant lets transfers match by amount (`matchByAmount`)
 *
 * In both the link is neither paid nor cancelled. Once the transfer is confirmed the link is PAID, with the exception PAID_LATE unless
 * another one of link.ts comes first (db/links/recompute-link-status.ts).
 */

type Lifetime = { readonly expiresAtMs: number; readonly cancelledAtMs?: number | undefined };

/** Whether a transfer in a block of this time is in time: up to and including the moment of expiry. */
export function isOpenAt({ expiresAtMs, cancelledAtMs }: Lifetime, blockTimeMs: number): boolean {
  const isCancelled = cancelledAtMs !== undefined && cancelledAtMs <= blockTimeMs;
  return !isCancelled && blockTimeMs <= expiresAtMs;
}

/**
 * Whether the link had already expired at this block time, so that a transfer in that block would pay it late. A cancelled link is never
 * paid by amount.
 */
export function isLateFor({ expiresAtMs, cancelledAtMs }: Lifetime, blockTimeMs: number): boolean {
  return expiresAtMs < blockTimeMs && cancelledAtMs === undefined;
}
