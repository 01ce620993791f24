/**
 * How deep a reorganisation can be and still be undone: as many blocks as are kept, the non-final ones and 4,096 more. A deeper one stops
 * the indexer without a change (indexer/follow/reorg.ts).
 */

/** Non-final blocks are always kept, and this many more below the cursor. */
export const KEPT_BLOCKS = 4_096;
/** Limit where no node reports finality, or finality stalls for days: four days at two seconds per block. */
export const KEPT_BLOCKS_MAX = 200_000;
