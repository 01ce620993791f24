/** When a period is complete, so that a file of it is final: nothing that belongs to it can be found in the ordinary course any more. */

/** Of one wallet's ledger. */
export type LedgerEnd = {
  /** Every movement before this is confirmed. */
  confirmedBefore: Date;
  /** Blocks before this were read a second time: what a node left out at first is there. Null before the first such reading. */
  recheckedBefore: Date | null;
  /** The wallet's earlier blocks were read, and its first balance is known. */
  isWhole: boolean;
};

/** A second reading is waited for no longer than this: books must not depend on nodes that fail it. */
const RECHECK_WAIT_MS = 86_400_000;

/** Whether the period that ends with `before` is complete in this ledger. */
export function isComplete(
  { confirmedBefore, recheckedBefore, isWhole }: LedgerEnd,
  before: Date,
  now: Date,
): boolean {
  if (!isWhole || confirmedBefore < before) return false;
  const isRechecked = recheckedBefore !== null && recheckedBefore >= before;
  return isRechecked || now.getTime() >= before.getTime() + RECHECK_WAIT_MS;
}
