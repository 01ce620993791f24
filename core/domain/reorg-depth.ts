/**
 * The deepest reorganisation that can be undone, which is how far below the cursor blocks are kept: the newest 4,096, and of the
 * newest 200,000 also those that are not final (`pruneBlocks` of db/ledger/blocks.ts; of a range read while catching up, only what is
 * within 4,096 of the head). A deeper one stops the indexer, which changes nothing (indexer/follow/undo-reorg.ts).
 */

/** The number of blocks below the cursor that are kept even when they are final. */
export const KEPT_BLOCKS = 4_096;
/** Limit where no node reports finality, or finality stalls for days: four days at two seconds per block. */
export const KEPT_BLOCKS_MAX = 200_000;

/**
 * A transfer removed by a reorganisation counts as lost this many blocks above its own. Its signed bytes are public, and nodes include them in one
 * of the next blocks: one that is still missing after half a minute of two-second blocks was replaced or dropped.
 */
export const RETURN_BLOCKS = 15;
