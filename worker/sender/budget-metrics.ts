/** Metrics of the caps and budgets of relaying, and their usage. In gas, or wei for FEES and fees. */
import { Gauge, type Registry } from "prom-client";
import type { NetworkId } from "../../core/domain/networks.ts";
import type { RelayBudgetScope } from "../../core/domain/relay-budget.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { type BudgetSummary, summarizeBudgets } from "../../db/relays/budgets.ts";
import { openGauge } from "../database-gauge.ts";

/** `nextCost`: the maximum cost of the next transaction; a budget with less left is exhausted. */
export type BudgetSettings = { limit: bigint | undefined; nextCost: bigint };
type Settings = {
  maxFeeWei: bigint;
  dailyFeeMaxWei: bigint | undefined;
  /** Budgets of the relay kinds. */
  budgets: Record<Exclude<RelayBudgetScope, "FEES">, BudgetSettings>;
};

export function openBudgetMetrics(
  registry: Registry,
  { sql, networks, ...settings }: Settings & { sql: Sql; networks: readonly NetworkId[] },
): void {
  const budgets = { FEES: { limit: settings.dailyFeeMaxWei, nextCost: 1n }, ...settings.budgets };
  openLimits(registry, networks, { maxFeeWei: settings.maxFeeWei, budgets });
  const figures: [string, string, (summary: BudgetSummary) => number][] = [
    ["relay_budget_used", "Usage today of the most used budget in its scope", ({ used }) => Number(used)],
    [
      "relay_budget_reserved",
      "Largest reservation of one budget in its scope for transactions not mined yet",
      ({ reserved }) => Number(reserved),
    ],
    ["relay_budgets_spent", "Budgets with no room for another payment today", ({ spent }) => spent],
  ];
  for (const [name, help, figureOf] of figures) {
    openGauge(registry, {
      name,
      help,
      labelNames: ["network", "scope"],
      async read() {
        const summaries = await summarizeBudgets(sql, budgets);
        return summaries.map((summary) => ({
          labels: { network: summary.network, scope: summary.scope },
          value: figureOf(summary),
        }));
      },
    });
  }
}

/** Limits that are not set have no value. */
function openLimits(
  registry: Registry,
  networks: readonly NetworkId[],
  { maxFeeWei, budgets }: { maxFeeWei: bigint; budgets: Record<RelayBudgetScope, BudgetSettings> },
): void {
  const registers = [registry];
  const cap = new Gauge({
    name: "relay_max_fee_wei",
    help: "Maximum price offered per gas: RELAY_MAX_FEE_GWEI",
    labelNames: ["network"] as const,
    registers,
  });
  const limit = new Gauge({
    name: "relay_budget_limit",
    help: "Daily limit of one budget in its scope; merchants may have their own",
    labelNames: ["network", "scope"] as const,
    registers,
  });
  for (const network of networks) {
    cap.set({ network }, Number(maxFeeWei));
    for (const [scope, { limit: value }] of Object.entries(budgets)) {
      if (value !== undefined) limit.set({ network, scope }, Number(value));
    }
  }
}
