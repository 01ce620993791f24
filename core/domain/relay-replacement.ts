/**
 * When a transaction that is not mined is replaced by one with a higher fee (by how much: core/chain/raise-fees.ts). Counted in blocks, not in time: while no block is produced, a
 * higher fee has no effect, and every raise is paid for once blocks are produced again.
 */

/** Blocks produced without the transaction since its newest attempt was broadcast, before the fee is raised. */
const PASSED_OVER_BLOCKS = 2n;

/** By hash of an attempt: the head when it was first known to be broadcast. */
export type FirstHeads = Map<string, bigint>;

/**
 * Records the head at which an attempt is first seen broadcast, and returns whether enough blocks have been produced without it since.
 * A lagging node shows a lower head, which only makes the wait longer.
 */
export function isPassedOver(
  firstHeads: FirstHeads,
  attempt: { readonly txHash: string; readonly sinceSentMs: number | null },
  headNumber: bigint,
): boolean {
  if (attempt.sinceSentMs === null) return false;
  const firstHead = firstHeads.get(attempt.txHash);
  if (firstHead === undefined) {
    firstHeads.set(attempt.txHash, headNumber);
    return false;
  }
  return headNumber >= firstHead + PASSED_OVER_BLOCKS;
}

/** Forgets attempts that are no longer pending. */
export function keepOnly(firstHeads: FirstHeads, txHashes: ReadonlySet<string>): void {
  for (const txHash of firstHeads.keys()) if (!txHashes.has(txHash)) firstHeads.delete(txHash);
}
