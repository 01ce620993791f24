/**
 * Rounds of a random test, of which more find rarer faults and cover nothing else: few in each run, many with TEST_DEPTH=full, before a
 * release.
 */
export function roundsOf({ few, many }: { few: number; many: number }): number {
  return process.env.TEST_DEPTH === "full" ? many : few;
}
