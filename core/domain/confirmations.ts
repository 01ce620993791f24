/**
 * How deep a block must be to be final to the ledger. A block has one confirmation when it is the head, and one more for each block on top
 * of it; `CONFIRMATIONS_*` of core/runtime/chain-env.ts says how many are needed, 3 by default. Transfers that have them become CONFIRMED
 * (db/ledger/confirm-transfers.ts) and their links PAID (db/links/recompute-link-status.ts).
 */

/** The newest block that has `confirmations` at this head: it and all below it are final to the ledger. */
export function newestConfirmedBlock(headNumber: number, confirmations: number): number {
  return headNumber - confirmations + 1;
}

/** The block that gave this one its last confirmation: its time is when the transfers of this one became CONFIRMED. */
export function confirmingBlock(blockNumber: number, confirmations: number): number {
  return blockNumber + confirmations - 1;
}
