/** Budgets of what relays cost in a UTC day, and how a refusal describes one that has no room. */
export const RELAY_BUDGET_SCOPES = ["FEES", "MERCHANT", "REVERTED"] as const;
export type RelayBudgetScope = (typeof RELAY_BUDGET_SCOPES)[number];

/** `used` by mined transactions, `reserved` by those that no block holds; `maximum` null: no limit. Gas, or wei for FEES. */
export type RelayBudget = {
  readonly used: bigint;
  readonly reserved: bigint;
  readonly maximum: bigint | null;
};

/**
 * "spent": `amount` does not fit beside what is used, and nothing but the next day changes that. "held": it does not fit beside what
 * transactions on their way may still cost; once they are mined it may.
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
};

/** Budgets are counted by UTC day. */
function nextDay(now: Date): Date {
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate() + 1));
}
