/**
 * How deep a reorganisation can be and still be undone: as deep as blocks are kept below the cursor, all that are not final,
 * at least 4,096 and at most 200,000 (`pruneBlocks` of db/ledger/blocks.ts). A deeper one stops the indexer without a change
 * (indexer/follow/reorg.ts).
 */

/** So many blocks below the cursor are kept also when they are final. */
export const KEPT_BLOCKS = 4_096;
/** Limit where no node reports finality, or finality stalls for days: four days at two seconds per block. */
export const KEPT_BLOCKS_MAX = 200_000;
