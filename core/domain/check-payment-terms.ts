/**
 * Whether an authorization meets what a link or another seller requires: its recipient, exactly its amount, and a validity window that has
 * begun and has at least six seconds left, the time to get into a block. Whether a link accepts a payment at all: payment-acceptance.ts.
 */
import type { Authorization } from "./authorization.ts";
import type { Hex } from "./networks.ts";
import type { PaymentRefusal } from "./payment.ts";

/** What the link requires: the recipient and the exact amount. */
export type PaymentTerms = { readonly payTo: Hex; readonly amountUnits: bigint };

export type TermsVerdict = { readonly ok: true } | { readonly ok: false; readonly reason: PaymentRefusal };

/** Minimum time left before `validBefore`; with less, the transaction may not be mined in time. */
const VALIDITY_MARGIN_S = 6n;

/**
 * The time that counts for a window, in Unix seconds: the later of the chain's last block and our clock, so that a window that is about
 * to end counts as expired.
 */
export function windowTimeS(lastBlock: Date | null, now: Date): number {
  return Math.floor(Math.max(now.getTime(), lastBlock?.getTime() ?? 0) / 1000);
}

/**
 * Recipient, then amount, then window, against the time of the chain's last block.
 * The token itself requires `now > validAfter` and `now < validBefore`, both strict (EIP-3009).
 */
export function checkTerms(
  authorization: Authorization,
  terms: PaymentTerms,
  chainTimeS: number | bigint,
): TermsVerdict {
  const now = BigInt(chainTimeS);
  if (authorization.to !== terms.payTo.toLowerCase()) return refuse("RECIPIENT_MISMATCH");
  if (authorization.value > terms.amountUnits) return refuse("AMOUNT_EXCEEDS_MAXIMUM");
  if (authorization.value < terms.amountUnits) return refuse("AMOUNT_BELOW_REQUIRED");
  if (authorization.validBefore < now + VALIDITY_MARGIN_S) return refuse("EXPIRED_TRANSFER");
  if (authorization.validAfter >= now) return refuse("NOT_YET_VALID");
  return { ok: true };
}

function refuse(reason: PaymentRefusal): TermsVerdict {
  return { ok: false, reason };
}
