/**
 * When the next batch of a network is leased. A payment that arrives alone is relayed immediately. Under load, payments that arrive close
 * together share a transaction, a block and their commits, whichever API processes they come from: the cost of a payment mainly
 * depends on the size of its batch. The maximum size: RELAY_BATCH_MAX (core/runtime/relay-limits-env.ts).
 */

/** While others are waiting for a block: the larger the last batch, the longer to wait for that block, up to GATHER_MAX_MS. */
const GATHER_MS_A_PAYMENT = 4;
const GATHER_MAX_MS = 150;
/** A batch of this size marks the network as busy for BUSY_MS, less than half of a drain lease. */
const BUSY_MIN = 16;
const BUSY_MS = 400;
/** Gathering time of a busy network with nothing pending: processes that got responses together send again within a moment. */
const GATHER_BUSY_MS = 20;

/** Another worker that was draining counts as draining for the duration of its lease. */
const ELSEWHERE_MS = 1_000;

export type BatchTiming = {
  noteBatch(payments: number): void;
  /** The size of the last batch. */
  lastBatch(): number;
  /** The maximum time to gather the next batch before a block, once payments are due; `hasPending`: others are waiting for a block. */
  gatherMs(hasPending: boolean): number;
  /** More payments are likely to arrive soon, so the drain continues although nothing is due. */
  isBusy(): boolean;
  /** Records that due payments were left to another worker. */
  noteDrainedElsewhere(): void;
  isDrainedElsewhere(): boolean;
};

/** `readMs`: a monotonic clock. */
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
