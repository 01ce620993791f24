/** Payments whose merchant's gas budget has no room: refused for today, or kept waiting for what is on its way. */
import { paymentsGas } from "../../core/chain/relay.ts";
import { describeBudget, judgeBudget } from "../../core/domain/relay-budget.ts";
import { findMerchantBudgets } from "../../db/relays/budgets.ts";
import type { Payment } from "../../db/schema.ts";
import type { Failure } from "./fail-payments.ts";
import type { PaymentNetwork } from "./payment-network.ts";

/** What a payment may cost its merchant at most when it travels by itself; in a batch it is less. */
const PAYMENT_GAS = paymentsGas(1);

export type BudgetSplit<P> = { within: P[]; spent: Failure[]; held: P[]; heldText: string | undefined };

/**
 * Splits leased payments by their merchants' budgets as they are now, in the order given, so that a batch holds none that its
 * signing would refuse. The reservation at signing is what counts; a race with another worker is seen there.
 */
export async function splitByBudget<P extends Payment>(
  { deps, chain }: PaymentNetwork,
  payments: readonly P[],
): Promise<BudgetSplit<P>> {
  const budgets = await findMerchantBudgets(deps.sql, {
    network: chain.network.id,
    paymentIds: payments.map(({ id }) => id),
    maximum: deps.config.relayGasPerMerchantPerDay ?? null,
  });
  const budgetOf = new Map(budgets.map((budget) => [budget.paymentId, budget]));
  const planned = new Map<string, bigint>();
  const split: BudgetSplit<P> = { within: [], spent: [], held: [], heldText: undefined };
  for (const payment of payments) {
    const budget = budgetOf.get(payment.id);
    if (!budget) {
      split.within.push(payment);
      continue;
    }
    const before = planned.get(budget.userId) ?? 0n;
    const verdict = judgeBudget({ ...budget, reserved: budget.reserved + before }, PAYMENT_GAS);
    if (verdict === "fits") {
      planned.set(budget.userId, before + PAYMENT_GAS);
      split.within.push(payment);
      continue;
    }
    const message = describeBudget("MERCHANT", budget, new Date());
    if (verdict === "spent") split.spent.push({ payment, reason: "RELAY_BUDGET_SPENT", message });
    if (verdict === "held") {
      split.held.push(payment);
      split.heldText = message;
    }
  }
  return split;
}
