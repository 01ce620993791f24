/** When a period is complete, so that a file about it is final: in normal operation nothing more can be added to it. */

/** Of one wallet's ledger. */
export type LedgerEnd = {
  /** Every movement before this is confirmed. */
  confirmedBefore: Date;
  /** Blocks before this were read a second time, which adds what a node omitted the first time. Null before the first such reading. */
  recheckedBefore: Date | null;
  /** Whether the wallet's earlier blocks were read and its first balance is known. */
  isWhole: boolean;
};

/** Maximum wait for the second reading: books must not depend on nodes that fail it. */
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
