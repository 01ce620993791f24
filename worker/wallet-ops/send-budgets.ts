/** What users' operations are charged in gas budgets, beside the network's fees. */
import { type BundleItem, bundleItemGas } from "../../core/chain/user-operation.ts";
import type { NetworkId } from "../../core/domain/networks.ts";
import type { Charge } from "../../db/relays/budgets.ts";
import type { WorkerConfig } from "../config.ts";
import type { BudgetSettings } from "../sender/budget-metrics.ts";

/** Gas limit of a send to one recipient; it uses a quarter of it. */
const SEND_GAS = 530_000n;

export type SendLimits = Pick<WorkerConfig, "sendGasPerDay" | "sendGasTotalPerDay">;

/** The budgets of sends, with what the next one may cost. */
export function sendBudgets(limits: SendLimits) {
  return {
    SENDS: { limit: limits.sendGasTotalPerDay, nextCost: SEND_GAS },
    SENDER: { limit: limits.sendGasPerDay, nextCost: 1n },
  } satisfies Record<string, BudgetSettings>;
}

/**
 * The network's own share for sends, and each user's part of it by the gas limits of their operations. A user's limit was asked when
 * they prepared; here it is only counted.
 */
export function operationCharges(
  network: NetworkId,
  bundle: readonly { userId: string; bundleItem: BundleItem }[],
  limits: SendLimits,
): Charge[] {
  const gasOf = (part: typeof bundle) =>
    part.reduce((sum, { bundleItem }) => sum + bundleItemGas(bundleItem), 0n);
  const total: Charge = {
    scope: "SENDS",
    subject: network,
    items: 1,
    amount: gasOf(bundle),
    maximum: limits.sendGasTotalPerDay ?? null,
  };
  const senders = [...Map.groupBy(bundle, ({ userId }) => userId)].map(([subject, own]): Charge => {
    const amount = gasOf(own);
    return {
      scope: "SENDER",
      subject,
      items: Number(amount),
      amount,
      maximum: limits.sendGasPerDay,
      isAdvisory: true,
    };
  });
  return [total, ...senders];
}
