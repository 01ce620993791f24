/**
 * Reusable links: paid by many payers, or for an amount that the payer chooses. Each payment is a use, a separate link under
 * the reusable one. How many uses are accepted: db/links/max-uses.ts.
 */
import { createHash } from "node:crypto";
import type { Hex } from "./networks.ts";

export const MAX_PAYMENTS_LIMIT = 1_000_000;

/** How long a use holds its place; shorter where the number of uses is limited. Late money is still booked on it. */
export const USE_LIFE_MINUTES = 24 * 60;
export const COUNTED_USE_LIFE_MINUTES = 60;
/** How long a use keeps its place, before anything pays it, when others want it (db/links/max-uses.ts). */
export const SAFE_PLACE_MINUTES = 15;
/** The same when a claim holds it: a claim costs one signature, and a transaction that a node knows may never be mined. */
export const CLAIMED_PLACE_MINUTES = 30;

export type ReuseTerms = {
  isReusable: boolean;
  /** Null: unlimited. */
  maxPayments: number | null;
  /** Both null: the amount is fixed. */
  minUnits: bigint | null;
  maxUnits: bigint | null;
};

export const PAID_ONCE: ReuseTerms = { isReusable: false, maxPayments: 1, minUnits: null, maxUnits: null };

const FINEST_CHOICE_UNITS = 10n;

/** What a payer of this link may choose; undefined when the amount is fixed. */
export function choiceOf(link: {
  minUnits?: bigint | null;
  maxUnits?: bigint | null;
}): { minUnits: bigint; maxUnits: bigint } | undefined {
  const { minUnits, maxUnits } = link;
  return minUnits && maxUnits ? { minUnits, maxUnits } : undefined;
}

/** At most five decimals: a chosen amount ends in 0, and a unique amount of another link never does. */
export function isTooFine(units: bigint): boolean {
  return units % FINEST_CHOICE_UNITS !== 0n;
}

const ID_BYTES = 16;

/**
 * The use that an authorization pays: always the same one, however often and to whichever process it is shown. All authorizations of a payer with the
 * same idempotency key pay the same use, so only one of them is accepted.
 */
export function useIdOf(
  linkId: string,
  { from, nonce }: { from: Hex; nonce: Hex },
  idempotencyKey: string | undefined,
): string {
  const named = idempotencyKey === undefined ? nonce : `key:${idempotencyKey}`;
  const digest = createHash("sha256").update(`use:${linkId}:${from}:${named}`).digest();
  return `link_${digest.subarray(0, ID_BYTES).toString("base64url")}`;
}
