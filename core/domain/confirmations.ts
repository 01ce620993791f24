/**
 * A block has one confirmation when it is the head, and one more for each block on top of it. How many make it final to the ledger
 * is `CONFIRMATIONS_*` of core/runtime/chain-env.ts (3 by default); its transfers become CONFIRMED in db/ledger/confirm-transfers.ts,
 * their links PAID in db/links/compute-link-status.ts.
 */

/** The newest block that has `confirmations` at this head: it and all below it are final to the ledger. */
export function newestConfirmedBlock(headNumber: number, confirmations: number): number {
  return headNumber - confirmations + 1;
}

/** The block that gave this one its last confirmation: its time is when the transfers of this one became CONFIRMED. */
export function confirmingBlock(blockNumber: number, confirmations: number): number {
  return blockNumber + confirmations - 1;
}
