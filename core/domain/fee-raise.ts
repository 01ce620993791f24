/**
 * When a transaction that no block holds is offered at a higher fee. Blocks decide, never the clock: while no block is made, a higher
 * fee buys nothing, and every raise is paid for once blocks are made again.
 */

/** Blocks a transaction must have been passed over by since its newest attempt was handed to a node. */
const PASSED_OVER_BLOCKS = 2n;

/** By hash of an attempt: the head when it was first known to be with a node. */
export type FirstHeads = Map<string, bigint>;

/**
 * Notes the head under which an attempt is first seen handed over, and tells whether enough blocks have passed it over since.
 * A node behind the others shows a lower head: that only makes the wait longer.
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

/** Forgets attempts that wait no more. */
export function keepOnly(firstHeads: FirstHeads, txHashes: ReadonlySet<string>): void {
  for (const txHash of firstHeads.keys()) if (!txHashes.has(txHash)) firstHeads.delete(txHash);
}
