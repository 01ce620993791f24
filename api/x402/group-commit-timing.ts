/**
 * When a group of payments is committed after another group. Payments settled by one block are followed by a burst of new ones, and splitting a
 * burst costs an extra commit: with several processes sharing the load, that is most of the cost of an additional process.
 */

const GROUP_MAX = 100;
/** Minimum gathering time of a group of several payments. */
const GATHER_MS = 8;
/** A smaller group waits longer: with several processes sharing the load, each would otherwise commit a few at a time. */
const GROUP_MIN = 8;
const GATHER_MAX_MS = 25;
/** Interval of polls of the waiting payments: a burst is over when nothing arrived between two polls. */
const POLL_INTERVAL_MS = 4;

export const GROUP_LIMITS = { groupMax: GROUP_MAX, pollIntervalMs: POLL_INTERVAL_MS } as const;

/** `before`: how many waited at the last poll. */
export function isGathered(
  waiting: number,
  { before, passedMs }: { before: number; passedMs: number },
): boolean {
  if (waiting >= GROUP_MAX || passedMs >= GATHER_MAX_MS) return true;
  return waiting >= GROUP_MIN && waiting === before && passedMs >= GATHER_MS;
}
