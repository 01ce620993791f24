/** Metrics of relaying. Amounts of gas in gas units, fees and balances in wei. */
import { Counter, Gauge, Histogram, type Registry } from "prom-client";

const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60];

export type RelayMetrics = ReturnType<typeof openRelayMetrics>;

export function openRelayMetrics(registry: Registry) {
  const registers = [registry];
  const network = ["network"] as const;
  return {
    minedSeconds: new Histogram({
      name: "relay_mined_seconds",
      help: "From signing a transaction to seeing its receipt",
      labelNames: network,
      buckets: SECONDS,
      registers,
    }),
    relays: new Counter({
      name: "relays_total",
      help: "Mined relays; outcome succeeded or reverted",
      labelNames: ["network", "outcome"],
      registers,
    }),
    gasUsed: new Counter({ name: "relay_gas_total", help: "Gas used", labelNames: network, registers }),
    feeWei: new Counter({
      name: "relay_fee_wei_total",
      help: "Fees paid, in wei",
      labelNames: network,
      registers,
    }),
    raises: new Counter({
      name: "relay_fee_raises_total",
      help: "Waiting transactions due for a higher fee; outcome raised, cap (no room below a cap), budget (none in the day's), early (the ledger is behind), signer (the remote signer did not sign) or known (stored already)",
      labelNames: ["network", "outcome"],
      registers,
    }),
    resendsPutOff: new Counter({
      name: "relay_resends_put_off_total",
      help: "Waiting transactions due to be sent again that were not, as nothing could tell whether they are still wanted; why early (the ledger is behind, or the head too old) or outdated (nodes answer too slowly)",
      labelNames: ["network", "why"],
      registers,
    }),
    headAgeSeconds: new Gauge({
      name: "relay_head_age_seconds",
      help: "Age of the newest block of the node that fees are read from; above RELAY_HEAD_MAX_AGE_S no payment is signed",
      labelNames: network,
      registers,
    }),
    signSeconds: new Histogram({
      name: "relayer_sign_seconds",
      help: "How long a remote signer took to sign a transaction",
      labelNames: ["network", "relayer"],
      buckets: SECONDS,
      registers,
    }),
    signFailures: new Counter({
      name: "relayer_sign_failures_total",
      help: "Transactions that a remote signer did not sign; kind timeout, unreachable, node-error, malformed or refused (by us: no call of a relay)",
      labelNames: ["network", "relayer", "kind"],
      registers,
    }),
    baseFeeWei: new Gauge({
      name: "relay_base_fee_wei",
      help: "Base fee of the newest block, as last read",
      labelNames: network,
      registers,
    }),
    balanceWei: new Gauge({
      name: "relayer_balance_wei",
      help: "Balance of a relayer key, as last read",
      labelNames: ["network", "relayer"],
      registers,
    }),
  };
}
