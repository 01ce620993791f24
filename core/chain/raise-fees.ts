/**
 * The EIP-1559 fees a relay offers, in wei per gas, and by how much they are raised. When they are raised, after how many blocks without
 * inclusion, `core/domain/relay-replacement.ts` says; `worker/sender/monitor.ts` asks it.
 */

export type Fees = { readonly maxFeePerGas: bigint; readonly maxPriorityFeePerGas: bigint };

/** Base orders transactions by tip and accepts a thousandth of a gwei. */
const DEFAULT_TIP_WEI = 1_000_000n;
/** Geth requires 10 % more to replace a transaction, some nodes 12.5 %; both fees are raised by a quarter. */
const BUMP_PERCENT = 125n;
const BUMP_ACCEPTED_PERMILLE = 1125n;
/** A tip only improves the position within a block: above this multiple of the node's suggestion it has no effect but its cost. */
const TIP_MULTIPLE_MAX = 10n;
/** Raises may always reach 0.1 gwei, even where nodes suggest almost nothing. */
const TIP_FLOOR_OF_CAP_WEI = 100_000_000n;

/**
 * First attempt: twice the base fee plus the tip, at most `maxFeeWei`. With `previous`: the higher of that and a quarter more
 * of both of its fees; `previous` itself when a cap leaves no room for an acceptable raise (resend the old bytes then).
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

/** Neither fee above the cap, and the tip not above the total (nodes refuse that). */
function toFees(maxFeePerGas: bigint, maxPriorityFeePerGas: bigint, capWei: bigint): Fees {
  const capped = min(maxFeePerGas, capWei);
  return { maxFeePerGas: capped, maxPriorityFeePerGas: min(maxPriorityFeePerGas, capped) };
}

function isRaise(before: bigint, after: bigint): boolean {
  return after > before && after * 1000n >= before * BUMP_ACCEPTED_PERMILLE;
}

/** A quarter more, rounded up, at least one wei. */
function raise(fee: bigint): bigint {
  return max((fee * BUMP_PERCENT + 99n) / 100n, fee + 1n);
}

function min(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}

function max(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}
