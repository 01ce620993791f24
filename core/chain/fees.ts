/** What a relay offers for its gas (EIP-1559), in wei a gas. */

export type Fees = { readonly maxFeePerGas: bigint; readonly maxPriorityFeePerGas: bigint };

/** Base orders by tip and is content with a thousandth of a gwei. */
const DEFAULT_TIP_WEI = 1_000_000n;
/** Nodes want 10 % more (geth) to replace a transaction, some 12.5 %; both fees are raised by a quarter. */
const BUMP_PERCENT = 125n;
const BUMP_ACCEPTED_PERMILLE = 1125n;
/** A tip buys a place in the block, never a block: above this multiple of what the node suggests it only costs. */
const TIP_MULTIPLE_MAX = 10n;
/** Raises may go this far even where nodes suggest next to nothing: 0.1 gwei. */
const TIP_FLOOR_OF_CAP_WEI = 100_000_000n;

/**
 * First attempt: twice the base fee plus the tip, at most `maxFeeWei`. With `previous`: the higher of that and a quarter more
 * of both of its fees; `previous` itself when a cap leaves no room for a raise a node would take (send the old bytes again).
 * The tip is at most the higher of ten times the node's suggestion and 0.1 gwei.
 */
export function nextFees(market: {
  readonly baseFeePerGas: bigint;
  /** What the node suggests; a thousandth of a gwei when unknown. */
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

/** Neither above the cap, and the tip not above the whole (a node refuses that). */
function toFees(maxFeePerGas: bigint, maxPriorityFeePerGas: bigint, capWei: bigint): Fees {
  const capped = min(maxFeePerGas, capWei);
  return { maxFeePerGas: capped, maxPriorityFeePerGas: min(maxPriorityFeePerGas, capped) };
}

function isRaise(before: bigint, after: bigint): boolean {
  return after > before && after * 1000n >= before * BUMP_ACCEPTED_PERMILLE;
}

/** A quarter more, rounded up, and never less than one wei more. */
function raise(fee: bigint): bigint {
  return max((fee * BUMP_PERCENT + 99n) / 100n, fee + 1n);
}

function min(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}

function max(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}
