/**
 * The delays between a webhook's delivery attempts, and when its endpoint is disabled: when an attempt fails 72 hours after the first
 * that failed since its last success, or at once when it answers 410 Gone (worker/webhooks/deliver-webhooks.ts).
 */

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

/** Counted from the first failed attempt since the last success; an attempt that fails later than that disables the endpoint. */
export const FAILING_MAX_H = 72;

/** Seconds until the next attempt after `tries` failed ones; undefined when there is none. */
export function retryAfterS(tries: number): number | undefined {
  return RETRY_AFTER_S[tries];
}
