/**
 * When a group of payments is committed, after another group. Payments that one block settled come again in one burst, and a burst that is
 * split costs one commit more: where several processes share the load, that is most of what a further process costs.
 */

const GROUP_MAX = 100;
/** A group of several is gathered for so long at least. */
const GATHER_MS = 8;
/** A smaller one waits longer: where several processes share the load, each would commit a few at a time. */
const GROUP_MIN = 8;
const GATHER_MAX_MS = 25;
/** Of what is waiting: the burst is over when nothing came between two polls. */
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
