/**
 * When the next batch of a network is leased. A payment that comes alone is relayed at once. Under load those that come within a moment
 * share a transaction, a block and the commits around both, from however many API processes they come: what a payment costs depends
 * on the size of its batch before all else.
 */

/** The larger the last batch, the longer the next one is gathered, up to GATHER_MAX_MS. */
const GATHER_MS_A_PAYMENT = 3;
export const GATHER_MAX_MS = 60;
/** A batch of so many makes the network count as busy for BUSY_MS, less than half of a drain lease. */
const BUSY_MIN = 8;
const BUSY_MS = 400;

export type BatchPace = {
  noteBatch(payments: number): void;
  /** For how long the next batch is gathered once payments are due. */
  gatherMs(): number;
  /** More payments are likely to come at once: the drain goes on while nothing is due. */
  isBusy(): boolean;
};

/** `readMs`: a clock that never runs back. */
export function openBatchPace(readMs: () => number = () => performance.now()): BatchPace {
  let last = { payments: 0, atMs: 0 };
  const isRecent = () => readMs() - last.atMs < BUSY_MS;

  return {
    noteBatch(payments) {
      last = { payments, atMs: readMs() };
    },
    gatherMs() {
      if (last.payments < 2 || !isRecent()) return 0;
      return Math.min(GATHER_MS_A_PAYMENT * last.payments, GATHER_MAX_MS);
    },
    isBusy: () => last.payments >= BUSY_MIN && isRecent(),
  };
}
