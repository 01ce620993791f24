/**
 * The latest known heights of ledger and chain: the indexer notifies each block it has read, each simulation returns a head. Only
 * hints about when to check again; decisions read the database under locks (db/payments/check-unpaid-before-signing.ts).
 */

export type LedgerProgress = {
  /** The block of the indexer's last notification; -1 before the first. */
  readonly readNumber: bigint;
  /** The highest head that a node returned. */
  readonly headNumber: bigint;
  readonly isClosed: boolean;
  noteRead(number: bigint): void;
  noteHead(number: bigint): void;
  /** True when the indexer has read another block, false on timeout and when the process stops. */
  nextBlock(timeoutMs: number): Promise<boolean>;
  close(): void;
};

export function openLedgerProgress(): LedgerProgress {
  const waiting = new Set<(isNotified: boolean) => void>();
  let [readNumber, headNumber] = [-1n, -1n];
  let isClosed = false;

  function wakeAll(isNotified: boolean): void {
    for (const wake of waiting) wake(isNotified);
  }

  return {
    get readNumber() {
      return readNumber;
    },
    get headNumber() {
      return headNumber;
    },
    get isClosed() {
      return isClosed;
    },
    noteRead(number) {
      readNumber = number;
      wakeAll(true);
    },
    noteHead(number) {
      if (number > headNumber) headNumber = number;
    },
    async nextBlock(timeoutMs) {
      if (isClosed) return false;
      const { promise, resolve } = Promise.withResolvers<boolean>();
      const timer = setTimeout(() => resolve(false), timeoutMs);
      waiting.add(resolve);
      const isNotified = await promise;
      waiting.delete(resolve);
      clearTimeout(timer);
      return isNotified;
    },
    close() {
      isClosed = true;
      wakeAll(false);
    },
  };
}
