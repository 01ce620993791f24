/** What payments count for in budgets beside their fees, and what becomes of those that a cap or a budget stops. */
import { contractPayerGas, paymentsGas } from "../../core/chain/relay.ts";
import type { NetworkId } from "../../core/domain/networks.ts";
import { describeBudget, judgeBudget } from "../../core/domain/relay-budget.ts";
import { findMerchantBudgets } from "../../db/payments/merchant-budgets.ts";
import type { Tx } from "../../db/postgres/client.ts";
import type { BudgetExceededError, Charge } from "../../db/relays/budgets.ts";
import type { Payment } from "../../db/schema.ts";
import type { WorkerConfig } from "../config.ts";
import type { BudgetSettings } from "../sender/budget-metrics.ts";
import type { NoLane } from "../sender/lanes.ts";
import type { Failure } from "./fail-payments.ts";
import type { PaymentNetwork } from "./payment-network.ts";
import { endUnlessUsed, handleUnavailable } from "./refusals.ts";

export type PaymentLimits = Pick<WorkerConfig, "relayGasPerMerchantPerDay" | "relayRevertedGasPerDay">;

/** The budgets of payments, with what the next payment may cost. */
export function paymentBudgets(limits: PaymentLimits) {
  return {
    MERCHANT: { limit: limits.relayGasPerMerchantPerDay, nextCost: paymentsGas(1) },
    REVERTED: { limit: limits.relayRevertedGasPerDay, nextCost: contractPayerGas(undefined) },
  } satisfies Record<string, BudgetSettings>;
}

/**
 * What a relay counts for beside its fee: each merchant's share of the gas limit, and the gas at risk with a contract payer whose code is
 * not known to be harmless, `implementation`.
 */
export async function findPaymentCharges(
  tx: Tx,
  relay: {
    network: NetworkId;
    gas: bigint;
    paymentIds: readonly string[];
    implementation?: string | undefined;
    limits: PaymentLimits;
  },
): Promise<Charge[]> {
  const { network, gas, paymentIds, implementation, limits } = relay;
  const maximum = limits.relayGasPerMerchantPerDay ?? null;
  const budgets = await findMerchantBudgets(tx, { network, paymentIds, maximum });
  const merchants = [...Map.groupBy(budgets, ({ userId }) => userId)].map(([subject, own]) => ({
    ...{ scope: "MERCHANT" as const, subject, items: own.length, maximum: own[0]?.maximum ?? null },
    amount: ceilDivide(gas * BigInt(own.length), BigInt(paymentIds.length)),
  }));
  if (implementation === undefined) return merchants;
  const reverted = { scope: "REVERTED" as const, subject: implementation, items: 1, amount: gas };
  return [...merchants, { ...reverted, maximum: limits.relayRevertedGasPerDay }];
}

function ceilDivide(dividend: bigint, divisor: bigint): bigint {
  return (dividend + divisor - 1n) / divisor;
}

/** What a payment may cost its merchant at most, in a transaction by itself; in a batch it is less. */
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

export type Explanation = { why: string; message?: string | undefined };

/** Limits are described to the payer too. */
export function limitReached(text = "a limit of relaying is reached"): Explanation {
  return { why: text, message: text };
}

/** Why no key takes a transaction now. */
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
  return limitReached(`gas costs ${baseFeePerGas} wei, more than the cap of ${cap} wei (RELAY_MAX_FEE_GWEI)`);
}

/**
 * Signing found no room in a budget: a single payment that today's remainder can never hold is refused, all others wait for reservations
 * of pending transactions to be released, and are given up after a while.
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
