/** Why payments are not relayed now when a cap or a budget stops them, in words for the log and for the payer. */
import { describeBudget, judgeBudget } from "../../core/domain/relay-budget.ts";
import type { BudgetExceededError } from "../../db/relays/budgets.ts";
import type { Payment } from "../../db/schema.ts";
import type { PaymentNetwork } from "./payment-network.ts";
import { endUnlessUsed, handleUnavailable } from "./refusals.ts";

export type Explanation = { why: string; message?: string | undefined };

/** Texts of limits are for everybody. */
export function limitReached(text = "a limit of relaying is reached"): Explanation {
  return { why: text, message: text };
}

/** Why no key takes a transaction now. */
export async function explainNoPlace(
  { lanes, deps }: PaymentNetwork,
  why: "poor" | "spent" | "dear",
): Promise<Explanation> {
  if (why === "poor") return { why: "no relayer key can pay the gas" };
  if (why === "spent") {
    return limitReached(describeBudget("FEES", await lanes.readFeeBudget(), new Date()));
  }
  const { baseFeePerGas } = await lanes.readMarket();
  const cap = deps.config.relayMaxFeeWei;
  return limitReached(`gas costs ${baseFeePerGas} wei, more than the cap of ${cap} wei (RELAY_MAX_FEE_GWEI)`);
}

/**
 * Signing found no room in a budget: a payment by itself that today's remainder can never hold is refused, all others wait for what is
 * on its way, and are given up after a while.
 */
export async function refuseOverBudget(
  network: PaymentNetwork,
  payments: readonly Payment[],
  { scope, budget, amount }: BudgetExceededError,
): Promise<void> {
  const message = describeBudget(scope, budget, new Date());
  const [payment] = payments;
  const isOver = scope !== "FEES" && judgeBudget(budget, amount) === "spent";
  if (payment && payments.length === 1 && isOver) {
    return endUnlessUsed(network, [{ payment, reason: "RELAY_BUDGET_SPENT", message }]);
  }
  await handleUnavailable(network, payments, { ...limitReached(message), triedMs: 0 });
}
