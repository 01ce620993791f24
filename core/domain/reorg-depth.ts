/** How deep a reorganisation may be to be undone: as many blocks as are kept. A deeper one stops the indexer (indexer/follow/reorg.ts). */

/** Non-final blocks are always kept, and this many more below the cursor. */
export const KEPT_BLOCKS = 4_096;
/** Limit where no node reports finality, or finality stalls for days: four days at two seconds per block. */
export const KEPT_BLOCKS_MAX = 200_000;
