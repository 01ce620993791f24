/** Throttles exports on machines without spare cores, and staggers the retries of those that had to wait. Pure. */

/** `share`: of the time the work took. `maxMs`: limits the pause after waiting for an unresponsive database. */
export type Rest = { share: number; minMs: number; maxMs: number };

/** How long an export rests after work that took `workedMs`, in whole milliseconds, the resolution of timers. */
export function restMsAfter(workedMs: number, { share, minMs, maxMs }: Rest): number {
  return Math.min(maxMs, Math.max(minMs, Math.round(workedMs * share)));
}

/**
 * A pause between half and one and a half of `meanMs`: exports requested together are retried one at a time, because eight at once would
 * occupy every core. `random`: from 0 to 1.
 */
export function spreadMs(meanMs: number, random: number): number {
  return Math.round(meanMs * (0.5 + random));
}
