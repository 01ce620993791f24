/** How payments count in budgets other than the fee budget, and what happens to payments that a cap or budget stops. */
import { contractPayerGas, paymentsGas } from "../../core/chain/relay.ts";
import { describeBudget, judgeBudget } from "../../core/domain/relay-budget.ts";
import type { LeasedPayment } from "../../db/payments/queue.ts";
import type { BudgetExceededError, Charge } from "../../db/relays/budgets.ts";
import type { WorkerConfig } from "../config.ts";
import type { BudgetSettings } from "../sender/budget-metrics.ts";
import type { NoLane } from "../sender/relayer-lanes.ts";
import type { Failure } from "./fail-payments.ts";
import type { PaymentNetwork } from "./payment-network.ts";
import { failUnlessUsed, handleUnavailable } from "./retry-or-fail-payments.ts";

export type PaymentLimits = Pick<WorkerConfig, "relayGasPerMerchantPerDay" | "relayRevertedGasPerDay">;

/** The budgets of payments, with the maximum cost of the next payment. */
export function paymentBudgets(limits: PaymentLimits) {
  return {
    MERCHANT: { limit: limits.relayGasPerMerchantPerDay, nextCost: paymentsGas(1) },
    REVERTED: { limit: limits.relayRevertedGasPerDay, nextCost: contractPayerGas(undefined) },
  } satisfies Record<string, BudgetSettings>;
}

/**
 * What a relay of these payments is charged in addition to its fee: each merchant's share of the gas limit, and, for `implementation`, the gas at
 * risk with a contract payer whose code is not known to be harmless.
 */
export function chargesOf(
  payments: readonly Pick<LeasedPayment, "merchantId" | "merchantGasMaximum">[],
  {
    gas,
    implementation,
    limits,
  }: { gas: bigint; implementation?: string | undefined; limits: PaymentLimits },
): Charge[] {
  const merchants = [...Map.groupBy(payments, ({ merchantId }) => merchantId)].map(([subject, own]) => ({
    ...{ scope: "MERCHANT" as const, subject, items: own.length },
    maximum: own[0]?.merchantGasMaximum ?? limits.relayGasPerMerchantPerDay ?? null,
    amount: ceilDivide(gas * BigInt(own.length), BigInt(payments.length)),
  }));
  if (implementation === undefined) return merchants;
  const reverted = { scope: "REVERTED" as const, subject: implementation, items: 1, amount: gas };
  return [...merchants, { ...reverted, maximum: limits.relayRevertedGasPerDay }];
}

function ceilDivide(dividend: bigint, divisor: bigint): bigint {
  return (dividend + divisor - 1n) / divisor;
}

/** The maximum charge of a payment to its merchant, in its own transaction; less in a batch. */
const PAYMENT_GAS = paymentsGas(1);

export type BudgetSplit = {
  within: LeasedPayment[];
  spent: Failure[];
  held: LeasedPayment[];
  heldText: string | undefined;
};

/**
 * Splits leased payments, in the given order, by their merchants' budgets at the time of the lease, so that a batch contains
 * none that signing would refuse. The reservation at signing is authoritative and detects races with other workers.
 */
export function splitByBudget(payments: readonly LeasedPayment[], limits: PaymentLimits): BudgetSplit {
  const planned = new Map<string, bigint>();
  const split: BudgetSplit = { within: [], spent: [], held: [], heldText: undefined };
  for (const payment of payments) {
    const budget = {
      used: payment.merchantGasUsed,
      reserved: payment.merchantGasReserved,
      maximum: payment.merchantGasMaximum ?? limits.relayGasPerMerchantPerDay ?? null,
    };
    const before = planned.get(payment.merchantId) ?? 0n;
    const verdict = judgeBudget({ ...budget, reserved: budget.reserved + before }, PAYMENT_GAS);
    if (verdict === "fits") {
      planned.set(payment.merchantId, before + PAYMENT_GAS);
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

export type Explanation = { why: string; message?: string | undefined };

/** The payer also sees these descriptions of limits. */
export function limitReached(text = "a relay limit is reached"): Explanation {
  return { why: text, message: text };
}

/** Why no key can send a transaction now. */
export async function explainNoLane(
  { lanes, deps }: PaymentNetwork,
  why: Exclude<NoLane, "lanes_full">,
): Promise<Explanation> {
  if (why === "insufficient_gas_funds") return { why: "no relayer key can pay the gas" };
  if (why === "daily_budget_exhausted") {
    return limitReached(describeBudget("FEES", await lanes.readFeeBudget(), new Date()));
  }
  const { baseFeePerGas } = await lanes.readMarket();
  const cap = deps.config.relayMaxFeeWei;
  return limitReached(
    `the gas price of ${baseFeePerGas} wei is above the cap of ${cap} wei (RELAY_MAX_FEE_GWEI)`,
  );
}

/**
 * Signing found no room in a budget: a single payment that today's remainder can never hold is refused, all others wait for reservations
 * of pending transactions to be released, and are given up after a while.
 */
export async function refuseOverBudget(
  network: PaymentNetwork,
  payments: readonly LeasedPayment[],
  { scope, budget, amount }: BudgetExceededError,
): Promise<void> {
  const message = describeBudget(scope, budget, new Date());
  const [payment] = payments;
  const isOver = scope !== "FEES" && judgeBudget(budget, amount) === "spent";
  if (payment && payments.length === 1 && isOver) {
    return failUnlessUsed(network, [{ payment, reason: "RELAY_BUDGET_SPENT", message }]);
  }
  await handleUnavailable(network, payments, { ...limitReached(message), triedMs: 0 });
}
