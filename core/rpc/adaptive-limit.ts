/**
 * The batch size or block range that a node accepts, adapted to its refusals, since each provider has its own limits
 * and error messages. A refused size halves the limit; accepted ones raise it again, below the size that was refused last.
 */

export type AdaptiveLimit = {
  /** The size to request now. */
  size: number;
  readonly max: number;
  /** The largest size accepted since a size as small was refused. */
  accepted: number;
  refused: { readonly size: number; readonly atMs: number } | undefined;
  /** A refusal may have been an outage, so it is remembered for a while: twice as long when the same size is refused again. */
  rememberMs: number;
  forgottenSize: number;
};

const REMEMBER_FIRST_MS = 30_000;
const REMEMBER_MAX_MS = 600_000;

export function newAdaptiveLimit({ first, max }: { first: number; max: number }): AdaptiveLimit {
  return {
    size: first,
    max,
    accepted: 0,
    refused: undefined,
    rememberMs: REMEMBER_FIRST_MS,
    forgottenSize: Number.POSITIVE_INFINITY,
  };
}

export function noteAccepted(limit: AdaptiveLimit, size: number, nowMs: number): void {
  limit.accepted = Math.max(limit.accepted, size);
  if (size >= limit.forgottenSize) {
    limit.rememberMs = REMEMBER_FIRST_MS;
    limit.forgottenSize = Number.POSITIVE_INFINITY;
  }
  if (limit.refused && nowMs - limit.refused.atMs > limit.rememberMs) {
    limit.forgottenSize = limit.refused.size;
    limit.refused = undefined;
    limit.rememberMs = Math.min(REMEMBER_MAX_MS, limit.rememberMs * 2);
  }
  // only accepting the full size suggests that more may be accepted
  if (size < limit.size) return;
  limit.size = limit.refused
    ? Math.ceil((size + limit.refused.size - 1) / 2)
    : Math.min(limit.max, Math.max(limit.size, size * 2));
}

export function noteRefused(limit: AdaptiveLimit, size: number, nowMs: number): void {
  // concurrent requests are refused together, which counts as one refusal
  if (limit.refused && size >= limit.refused.size) return;
  // accepted before: more likely an outage than a new cap, which is refused again on the way up
  if (limit.accepted >= size) {
    limit.accepted = 0;
    limit.size = Math.max(1, size >> 1);
    return;
  }
  limit.size = Math.max(1, limit.accepted, size >> 1);
  limit.refused = { size, atMs: nowMs };
}
