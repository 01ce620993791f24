/** The caps and budgets of relaying beside what is used of them, for Prometheus. Gas, or wei for FEES and fees. */
import { Gauge, type Registry } from "prom-client";
import { contractPayerGas, paymentsGas } from "../../core/chain/relay.ts";
import type { NetworkId } from "../../core/domain/networks.ts";
import type { RelayBudgetScope } from "../../core/domain/relay-budget.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { type BudgetSummary, summarizeBudgets } from "../../db/relays/budgets.ts";
import type { WorkerConfig } from "../config.ts";
import { openGauge } from "../database-gauge.ts";

type Limits = Pick<
  WorkerConfig,
  "relayDailyFeeMaxWei" | "relayGasPerMerchantPerDay" | "relayRevertedGasPerDay" | "relayMaxFeeWei"
>;

/** What the next payment may cost: a budget with less left is spent. */
const NEXT_COST = {
  FEES: 1n,
  MERCHANT: paymentsGas(1),
  REVERTED: contractPayerGas(undefined),
} satisfies Record<RelayBudgetScope, bigint>;

export function openBudgetMetrics(
  registry: Registry,
  { sql, limits, networks }: { sql: Sql; limits: Limits; networks: readonly NetworkId[] },
): void {
  openLimits(registry, limits, networks);
  const figures: [string, string, (summary: BudgetSummary) => number][] = [
    ["relay_budget_used", "Used today of the fullest budget of its scope", ({ used }) => Number(used)],
    [
      "relay_budget_reserved",
      "Most that one budget of its scope has reserved for transactions in no block",
      ({ reserved }) => Number(reserved),
    ],
    ["relay_budgets_spent", "Budgets without room for another payment today", ({ spent }) => spent],
  ];
  for (const [name, help, figureOf] of figures) {
    openGauge(registry, {
      ...{ name, help, labelNames: ["network", "scope"] },
      async read() {
        const summaries = await summarizeBudgets(sql, NEXT_COST);
        return summaries.map((summary) => ({
          labels: { network: summary.network, scope: summary.scope },
          value: figureOf(summary),
        }));
      },
    });
  }
}

/** Limits that are not set have no value. */
function openLimits(registry: Registry, limits: Limits, networks: readonly NetworkId[]): void {
  const registers = [registry];
  const cap = new Gauge({
    name: "relay_max_fee_wei",
    help: "Most that is offered for a gas: RELAY_MAX_FEE_GWEI",
    labelNames: ["network"] as const,
    registers,
  });
  const limit = new Gauge({
    name: "relay_budget_limit",
    help: "Limit of one budget of its scope and day; merchants may have their own",
    labelNames: ["network", "scope"] as const,
    registers,
  });
  const byScope: Record<RelayBudgetScope, bigint | undefined> = {
    FEES: limits.relayDailyFeeMaxWei,
    MERCHANT: limits.relayGasPerMerchantPerDay,
    REVERTED: limits.relayRevertedGasPerDay,
  };
  for (const network of networks) {
    cap.set({ network }, Number(limits.relayMaxFeeWei));
    for (const [scope, value] of Object.entries(byScope)) {
      if (value !== undefined) limit.set({ network, scope }, Number(value));
    }
  }
}
