/**
 * The EIP-1559 fees a relay offers, in wei per gas. They are raised by a quarter in two cases (`worker/sender/monitor-relays.ts` checks): two blocks
 * were produced without the transaction, or its bytes must not be rebroadcast, so that new bytes replace them at the same nonce. The wait of
 * the first case is counted in blocks because a higher fee has no effect while no block is produced, and every raise has to be paid once
 * blocks are produced again.
 */

export type Fees = { readonly maxFeePerGas: bigint; readonly maxPriorityFeePerGas: bigint };

/** Where the node suggests no tip: Base orders transactions by tip and accepts a thousandth of a gwei. */
const DEFAULT_TIP_WEI = 1_000_000n;
/** Geth requires 10 % more to replace a transaction, some nodes 12.5 %; both fees are raised by a quarter. */
const BUMP_PERCENT = 125n;
const BUMP_ACCEPTED_PERMILLE = 1125n;
/** A tip only improves the position within a block: above this multiple of the node's suggestion it has no effect but its cost. */
const TIP_MULTIPLE_MAX = 10n;
/** Raises may always reach 0.1 gwei, even where nodes suggest almost nothing. */
const TIP_FLOOR_OF_CAP_WEI = 100_000_000n;
/** Blocks produced without the transaction since its newest attempt was broadcast, before the fee is raised. */
const PASSED_OVER_BLOCKS = 2n;

/**
 * First attempt: twice the base fee plus the tip, at most `maxFeeWei`. With `previous`: for both fees the higher of that and the
 * previous fee plus a quarter; `previous` itself when a cap leaves no room for an acceptable raise (resend the old bytes then).
 * The tip is at most the higher of ten times the node's suggestion and 0.1 gwei.
 */
export function nextFees(market: {
  readonly baseFeePerGas: bigint;
  /** The node's suggestion; a thousandth of a gwei when unknown. */
  readonly tipPerGas?: bigint | undefined;
  readonly maxFeeWei: bigint;
  readonly previous?: Fees | undefined;
}): Fees {
  const { baseFeePerGas, tipPerGas = DEFAULT_TIP_WEI, maxFeeWei, previous } = market;
  const fresh = toFees(baseFeePerGas * 2n + tipPerGas, tipPerGas, maxFeeWei);
  if (!previous) return fresh;
  const tipCapWei = max(tipPerGas * TIP_MULTIPLE_MAX, TIP_FLOOR_OF_CAP_WEI);
  const raised = toFees(
    max(fresh.maxFeePerGas, raise(previous.maxFeePerGas)),
    min(max(fresh.maxPriorityFeePerGas, raise(previous.maxPriorityFeePerGas)), tipCapWei),
    maxFeeWei,
  );
  const isTaken =
    isRaise(previous.maxFeePerGas, raised.maxFeePerGas) &&
    isRaise(previous.maxPriorityFeePerGas, raised.maxPriorityFeePerGas);
  return isTaken ? raised : previous;
}

/** By hash of an attempt: the head when it was first known to be broadcast. */
export type FirstHeads = Map<string, bigint>;

/**
 * Records the head at which an attempt is first seen broadcast, and returns whether enough blocks have been produced without it since.
 * A lagging node shows a lower head, which only makes the wait longer.
 */
export function isPassedOver(
  firstHeads: FirstHeads,
  attempt: { readonly txHash: string; readonly sinceSentMs: number | null },
  headNumber: bigint,
): boolean {
  if (attempt.sinceSentMs === null) return false;
  const firstHead = firstHeads.get(attempt.txHash);
  if (firstHead === undefined) {
    firstHeads.set(attempt.txHash, headNumber);
    return false;
  }
  return headNumber >= firstHead + PASSED_OVER_BLOCKS;
}

/** Forgets attempts that are no longer pending. */
export function keepOnly(firstHeads: FirstHeads, txHashes: ReadonlySet<string>): void {
  for (const txHash of firstHeads.keys()) if (!txHashes.has(txHash)) firstHeads.delete(txHash);
}

/** Neither fee above the cap, and the tip not above the total (nodes refuse that). */
function toFees(maxFeePerGas: bigint, maxPriorityFeePerGas: bigint, capWei: bigint): Fees {
  const capped = min(maxFeePerGas, capWei);
  return { maxFeePerGas: capped, maxPriorityFeePerGas: min(maxPriorityFeePerGas, capped) };
}

function isRaise(before: bigint, after: bigint): boolean {
  return after > before && after * 1000n >= before * BUMP_ACCEPTED_PERMILLE;
}

/** The fee plus a quarter, rounded up, and at least one wei higher. */
function raise(fee: bigint): bigint {
  return max((fee * BUMP_PERCENT + 99n) / 100n, fee + 1n);
}

function min(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}

function max(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}
