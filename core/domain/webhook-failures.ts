/** When a webhook's failed delivery is retried, and when failures disable its endpoint. Pure. */

/** The published schedule: the delay before each attempt, in seconds. The first is immediate; after the last the delivery is FAILED. */
export const RETRY_AFTER_S = [
  0,
  5,
  5 * 60,
  30 * 60,
  2 * 3_600,
  5 * 3_600,
  10 * 3_600,
  14 * 3_600,
  20 * 3_600,
  24 * 3_600,
] as const;

const FAILING_MAX_H = 72;

/** Seconds until the next attempt after `tries` failed ones; undefined when there is none. */
export function retryAfterS(tries: number): number | undefined {
  return RETRY_AFTER_S[tries];
}

/**
 * Why a failed attempt disables its endpoint: it was answered 410 Gone (Standard Webhooks), or attempts have failed for three days,
 * counted from the first one since the last success. `status`: of the HTTP response, if there was one.
 */
export function whyDisable(status: number | undefined, failingMs: number): "gone" | "failing" | undefined {
  if (status === 410) return "gone";
  return failingMs > FAILING_MAX_H * 3_600_000 ? "failing" : undefined;
}
