/**
 * What relays may cost in a UTC day, and which payments are not relayed although their link is payable: those below RELAY_MIN_AMOUNT, and
 * those that do not fit into the merchant's gas budget of the day. A plain transfer still pays their links. The numbers are in
 * `core/runtime/relay-limits-env.ts`; `api/wallet-ops/send-gas-budget.ts` refuses a user's own sends.
 */
import { formatUnits } from "./money.ts";
import type { Hex } from "./networks.ts";
import type { Refusal } from "./payment.ts";

export const RELAY_BUDGET_SCOPES = ["FEES", "MERCHANT", "REVERTED", "SENDS", "SENDER"] as const;
export type RelayBudgetScope = (typeof RELAY_BUDGET_SCOPES)[number];

/** `used` by mined transactions, `reserved` by those in flight; `maximum` null: no limit. Gas, or wei for FEES. */
export type RelayBudget = {
  readonly used: bigint;
  readonly reserved: bigint;
  readonly maximum: bigint | null;
};

/**
 * "spent": `amount` does not fit on top of what is used, until the next day. "held": it does not fit on top of what transactions in
 * flight may still cost, but may fit once they are mined.
 */
export type BudgetVerdict = "fits" | "held" | "spent";

export function judgeBudget({ used, reserved, maximum }: RelayBudget, amount: bigint): BudgetVerdict {
  if (maximum === null || used + reserved + amount <= maximum) return "fits";
  return used + amount <= maximum ? "held" : "spent";
}

/** Figures, unit and time of the reset, for the payer. */
export function describeBudget(scope: RelayBudgetScope, budget: RelayBudget, now: Date): string {
  const { name, unit } = NAMES[scope];
  const held = budget.reserved > 0n ? ` and ${budget.reserved} reserved` : "";
  const figures = `${budget.used} used${held} of ${budget.maximum ?? "unlimited"} ${unit}`;
  return `${name} has no room for this payment today: ${figures}; it resets at ${nextDay(now).toISOString()}`;
}

const NAMES: Record<RelayBudgetScope, { name: string; unit: string }> = {
  FEES: { name: "the network's fee budget for relaying", unit: "wei" },
  MERCHANT: { name: "the merchant's gas budget for relaying", unit: "gas" },
  REVERTED: { name: "the budget for reverted transactions of this kind of account", unit: "gas" },
  SENDS: { name: "the network's gas budget for sends", unit: "gas" },
  SENDER: { name: "the user's gas budget for sends", unit: "gas" },
};

/** Budgets are counted by UTC day. */
function nextDay(now: Date): Date {
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate() + 1));
}

/** Gas limit of a payment relayed alone; less in a batch. Measured with USDC's code: 102,808 to a first-time payee. */
export const PAYMENT_GAS = 150_000n;

export type RelayLimits = {
  /** Micro-USDC. */
  readonly relayMinUnits: bigint;
  readonly relayGasPerMerchantPerDay: bigint | undefined;
};

/** Whether a payment is refused only because it would not be relayed: a plain transfer still pays its link. */
export function isRelayObstacle({ reason }: Refusal): boolean {
  return reason === "AMOUNT_TOO_SMALL_TO_RELAY" || reason === "RELAY_BUDGET_SPENT";
}

/** Too small, or its merchant's gas for today is used up. Undefined when the link's payment is relayed. */
export function whyNotRelayed(
  link: { amountUnits: bigint; recipient: Hex; relayGasUsed: bigint; relayGasOwnMaximum: bigint | null },
  limits: RelayLimits,
  now: Date,
): Refusal | undefined {
  const maximum = link.relayGasOwnMaximum ?? limits.relayGasPerMerchantPerDay ?? null;
  const obstacle =
    whyTooSmall(link.amountUnits, limits) ??
    whyBudgetSpent({ used: link.relayGasUsed, reserved: 0n, maximum }, now);
  if (!obstacle) return undefined;
  return { ...obstacle, message: `${obstacle.message}; a USDC transfer to ${link.recipient} pays this link` };
}

export function whyTooSmall(amountUnits: bigint, { relayMinUnits }: RelayLimits): Refusal | undefined {
  if (amountUnits >= relayMinUnits) return undefined;
  const message = `${formatUnits(amountUnits)} USDC is below ${formatUnits(relayMinUnits)} USDC, the minimum that is relayed`;
  return { reason: "AMOUNT_TOO_SMALL_TO_RELAY", message };
}

/** Reservations are not counted here: they settle for less, and they are counted at signing. */
export function whyBudgetSpent(budget: RelayBudget, now: Date): Refusal | undefined {
  if (judgeBudget({ ...budget, reserved: 0n }, PAYMENT_GAS) === "fits") return undefined;
  return { reason: "RELAY_BUDGET_SPENT", message: describeBudget("MERCHANT", budget, now) };
}
