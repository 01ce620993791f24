/** Prometheus metrics of payments that are not yet mined. */
import { Counter, Histogram, type Registry } from "prom-client";

const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60];

export type PaymentMetrics = ReturnType<typeof openPaymentMetrics>;

export function openPaymentMetrics(registry: Registry) {
  const registers = [registry];
  const network = ["network"] as const;
  return {
    batchSize: new Histogram({
      name: "relay_batch_payments",
      help: "Payments carried by one transaction",
      labelNames: network,
      buckets: [1, 2, 5, 10, 20, 50, 100],
      registers,
    }),
    broadcastSeconds: new Histogram({
      name: "payment_broadcast_seconds",
      help: "Time from accepting a payment to broadcasting its transaction",
      labelNames: network,
      buckets: SECONDS,
      registers,
    }),
    refusals: new Counter({
      name: "payment_refusals_total",
      help: "Payments that ended FAILED, by reason",
      labelNames: ["network", "reason"],
      registers,
    }),
    signingWaits: new Counter({
      name: "payment_signing_waits_total",
      help: "Payments that waited for the indexer before signing; outcome signed, or returned to the queue",
      labelNames: ["network", "outcome"],
      registers,
    }),
  };
}
