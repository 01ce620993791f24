/** When a webhook is retried, and when its endpoint is disabled. A 410 disables it at once (worker/webhooks/deliver.ts). */

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

/** An endpoint without a success for this long, and with at least one failure at the end of it, is disabled. */
export const FAILING_MAX_H = 72;

/** Seconds until the next attempt after `tries` failed ones; undefined when there is none. */
export function retryAfterS(tries: number): number | undefined {
  return RETRY_AFTER_S[tries];
}
