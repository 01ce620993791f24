/**
 * How deep a reorganisation can be and still be undone: as deep as blocks are kept below the cursor: the newest 4,096, and below them
 * those of the newest 200,000 that are not final (`pruneBlocks` of db/ledger/blocks.ts; of a range read while catching up, only what is
 * within 4,096 of the head). A deeper one stops the indexer without a change (indexer/follow/undo-reorg.ts).
 */

/** So many blocks below the cursor are kept also when they are final. */
export const KEPT_BLOCKS = 4_096;
/** Limit where no node reports finality, or finality stalls for days: four days at two seconds per block. */
export const KEPT_BLOCKS_MAX = 200_000;

/**
 * So many blocks above its own, a transfer that a reorganisation has taken away counts as lost. Its signed bytes are public, and nodes put them
 * into one of the next blocks: what has missed half a minute of two-second blocks was replaced or dropped.
 */
export const RETURN_BLOCKS = 15;
