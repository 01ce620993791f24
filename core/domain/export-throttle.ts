/** Throttles exports on machines without spare cores, and staggers the retries of those that had to wait. Pure. */

/** `share`: of the time that the work took. `maxMs`: a database that does not answer is not waited for twice. */
export type Rest = { share: number; minMs: number; maxMs: number };

/** How long an export rests after work that took `workedMs`, in whole milliseconds: the clock of timers counts those. */
export function restMsAfter(workedMs: number, { share, minMs, maxMs }: Rest): number {
  return Math.min(maxMs, Math.max(minMs, Math.round(workedMs * share)));
}

/**
 * A pause between half and one and a half of `meanMs`: exports that were asked for together are looked at one by one, because eight at once
 * occupy every core. `random`: from 0 to 1.
 */
export function spreadMs(meanMs: number, random: number): number {
  return Math.round(meanMs * (0.5 + random));
}
