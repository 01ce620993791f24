/**
 * How far the ledger and the chain are, as this process heard last: the indexer notifies each block it has read, each simulation tells a
 * head. Only hints of when it is worth asking; what counts is read under locks (db/payments/signing-fence.ts).
 */

export type LedgerProgress = {
  /** The block the indexer told of last; -1 before the first. */
  readonly readNumber: bigint;
  /** The highest head that a node told us. */
  readonly headNumber: bigint;
  readonly isClosed: boolean;
  noteRead(number: bigint): void;
  noteHead(number: bigint): void;
  /** True when the indexer told of a block, false when the time was over first, or the process stops. */
  nextBlock(timeoutMs: number): Promise<boolean>;
  close(): void;
};

export function openLedgerProgress(): LedgerProgress {
  const waiting = new Set<(isTold: boolean) => void>();
  let [readNumber, headNumber] = [-1n, -1n];
  let isClosed = false;

  function wakeAll(isTold: boolean): void {
    for (const wake of waiting) wake(isTold);
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
      const isTold = await promise;
      waiting.delete(resolve);
      clearTimeout(timer);
      return isTold;
    },
    close() {
      isClosed = true;
      wakeAll(false);
    },
  };
}
