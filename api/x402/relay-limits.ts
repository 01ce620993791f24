/** Payments we do not relay although their link is payable: too small, or their merchant's gas for today is used up. A transfer still pays the link. */
import { paymentsGas } from "../../core/chain/relay.ts";
import { formatUnits } from "../../core/domain/money.ts";
import { describeBudget, judgeBudget, type RelayBudget } from "../../core/domain/relay-budget.ts";
import type { PayableLinkRow } from "../../db/links/payable-links.ts";

export type RelayLimits = {
  /** Micro-USDC. */
  readonly relayMinUnits: bigint;
  readonly relayGasPerMerchantPerDay: bigint | undefined;
};

export type RelayObstacle = {
  reason: "AMOUNT_TOO_SMALL_TO_RELAY" | "RELAY_BUDGET_SPENT";
  message: string;
};

/** Undefined when the link's payment is relayed. */
export function whyNotRelayed(
  link: Pick<PayableLinkRow, "amountUnits" | "recipient" | "relayGasUsed" | "relayGasOwnMaximum">,
  limits: RelayLimits,
  now: Date,
): RelayObstacle | undefined {
  const obstacle =
    whyTooSmall(link.amountUnits, limits) ??
    whyBudgetSpent(
      {
        used: link.relayGasUsed,
        reserved: 0n,
        maximum: link.relayGasOwnMaximum ?? limits.relayGasPerMerchantPerDay ?? null,
      },
      now,
    );
  if (!obstacle) return undefined;
  return { ...obstacle, message: `${obstacle.message}; a USDC transfer to ${link.recipient} pays this link` };
}

export function whyTooSmall(amountUnits: bigint, { relayMinUnits }: RelayLimits): RelayObstacle | undefined {
  if (amountUnits >= relayMinUnits) return undefined;
  const message = `${formatUnits(amountUnits)} USDC is below ${formatUnits(relayMinUnits)} USDC, the least that is relayed`;
  return { reason: "AMOUNT_TOO_SMALL_TO_RELAY", message };
}

/** What is only reserved is left out: it settles for less, and the signing counts it. */
export function whyBudgetSpent(budget: RelayBudget, now: Date): RelayObstacle | undefined {
  if (judgeBudget({ ...budget, reserved: 0n }, paymentsGas(1)) === "fits") return undefined;
  return { reason: "RELAY_BUDGET_SPENT", message: describeBudget("MERCHANT", budget, now) };
}
