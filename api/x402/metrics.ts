/** Prometheus metrics of payments: their outcomes, why they are refused, and how long payers wait. */
import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import type { RelayLimits } from "../../core/domain/relay-budget.ts";
import type { PayResult } from "./pay-link.ts";

const SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 15];

export type PayMetrics = ReturnType<typeof openPayMetrics>;

export function openPayMetrics(registry: Registry) {
  const registers = [registry];
  const seconds = new Histogram({
    name: "x402_pay_seconds",
    help: "Time from reading a payment to responding; outcome settled, submitted, unsettled, replayed, paid-elsewhere or refused",
    labelNames: ["way", "outcome"] as const,
    buckets: SECONDS,
    registers,
  });
  const refusals = new Counter({
    name: "x402_refusals_total",
    help: "Payments refused, by reason",
    labelNames: ["way", "reason"] as const,
    registers,
  });
  const unrelayed = new Counter({
    name: "x402_terms_refused_total",
    help: "Requests for a link's payment terms that got none because the payment is not relayed, by reason",
    labelNames: ["reason"] as const,
    registers,
  });
  return {
    countUnrelayed(reason: string): void {
      unrelayed.inc({ reason });
    },
    observe(way: "json" | "header", result: PayResult, startedMs: number): void {
      seconds.observe({ way, outcome: result.kind }, (performance.now() - startedMs) / 1_000);
      if (result.kind === "refused") refusals.inc({ way, reason: result.reason });
    },
    /** A payment that could not be parsed. */
    countUnreadable(way: "json" | "header"): void {
      refusals.inc({ way, reason: "INVALID_PAYLOAD_STRUCTURE" });
    },
  };
}

/** The limits that payments are refused by. */
export function openRelayLimitMetrics(registry: Registry, limits: RelayLimits): void {
  const registers = [registry];
  new Gauge({
    ...{
      name: "x402_relay_min_amount_units",
      help: "Minimum amount that is relayed, in micro-USDC",
      registers,
    },
  }).set(Number(limits.relayMinUnits));
  if (limits.relayGasPerMerchantPerDay === undefined) return;
  new Gauge({
    name: "x402_relay_gas_per_merchant_per_day",
    help: "Gas that relaying for one merchant may use per network and UTC day",
    registers,
  }).set(Number(limits.relayGasPerMerchantPerDay));
}
