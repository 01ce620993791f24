/** Gas budget charges of users' operations, in addition to the network's fees. */
import { type BundleItem, bundleItemGas } from "../../core/chain/user-operation.ts";
import type { NetworkId } from "../../core/domain/networks.ts";
import type { Charge } from "../../db/relays/budgets.ts";
import type { WorkerConfig } from "../config.ts";
import type { BudgetSettings } from "../sender/budget-metrics.ts";

/** Gas limit of a send to one recipient; its usage is a quarter of that. */
const SEND_GAS = 530_000n;

export type SendLimits = Pick<WorkerConfig, "sendGasPerDay" | "sendGasTotalPerDay">;

/** The budgets of sends, with the maximum cost of the next one. */
export function sendBudgets(limits: SendLimits) {
  return {
    SENDS: { limit: limits.sendGasTotalPerDay, nextCost: SEND_GAS },
    SENDER: { limit: limits.sendGasPerDay, nextCost: 1n },
  } satisfies Record<string, BudgetSettings>;
}

/**
 * Charges the network's budget for sends, and each user's budget by the gas limits of their operations. The user's limit was checked
 * at preparation; here usage is only recorded.
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
