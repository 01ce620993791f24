/**
 * When the next batch of a network is leased. A payment that comes alone is relayed at once. Under load those that come within a moment
 * share a transaction, a block and the commits around both, from however many API processes they come: what a payment costs depends
 * on the size of its batch before all else. How large one may be: RELAY_BATCH_MAX (core/runtime/relay-limits-env.ts).
 */

/** While others are on their way into a block: the larger the last batch, the longer that block is waited for, up to GATHER_MAX_MS. */
const GATHER_MS_A_PAYMENT = 4;
const GATHER_MAX_MS = 150;
/** A batch of so many makes the network count as busy for BUSY_MS, less than half of a drain lease. */
const BUSY_MIN = 16;
const BUSY_MS = 400;
/** Of a busy network, while none is on its way: several processes that were answered together ask again within a moment. */
const GATHER_BUSY_MS = 20;

/** Another worker that was draining counts as draining for so long: as long as its lease. */
const ELSEWHERE_MS = 1_000;

export type BatchTiming = {
  noteBatch(payments: number): void;
  /** How many payments the last batch had. */
  lastBatch(): number;
  /** For how long the next batch is gathered at most until a block, once payments are due; `hasPending`: others are on their way into one. */
  gatherMs(hasPending: boolean): number;
  /** More payments are likely to come at once: the drain goes on while nothing is due. */
  isBusy(): boolean;
  /** What is due was left to another worker. */
  noteDrainedElsewhere(): void;
  isDrainedElsewhere(): boolean;
};

/** `readMs`: a clock that never runs back. */
export function openBatchTiming(readMs: () => number = () => performance.now()): BatchTiming {
  let last = { payments: 0, atMs: 0 };
  let elsewhereMs = Number.NEGATIVE_INFINITY;
  const isRecent = () => readMs() - last.atMs < BUSY_MS;
  const isBusy = () => last.payments >= BUSY_MIN && isRecent();

  return {
    noteBatch(payments) {
      last = { payments, atMs: readMs() };
    },
    lastBatch: () => last.payments,
    gatherMs(hasPending) {
      if (!hasPending) return isBusy() ? GATHER_BUSY_MS : 0;
      if (last.payments < 2 || !isRecent()) return 0;
      return Math.min(GATHER_MS_A_PAYMENT * last.payments, GATHER_MAX_MS);
    },
    isBusy,
    noteDrainedElsewhere() {
      elsewhereMs = readMs();
    },
    isDrainedElsewhere: () => readMs() - elsewhereMs < ELSEWHERE_MS,
  };
}
