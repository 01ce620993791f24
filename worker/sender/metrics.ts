/** Metrics of relaying. Amounts of gas in gas units, fees and balances in wei. */
import { Counter, Gauge, Histogram, type Registry } from "prom-client";

const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60];

export type RelayMetrics = ReturnType<typeof openRelayMetrics>;

export function openRelayMetrics(registry: Registry) {
  const registers = [registry];
  const counter = <Label extends string = never>(name: string, help: string, ...labels: Label[]) =>
    new Counter({ name, help, labelNames: ["network", ...labels], registers });
  const gauge = <Label extends string = never>(name: string, help: string, ...labels: Label[]) =>
    new Gauge({ name, help, labelNames: ["network", ...labels], registers });
  const histogram = <Label extends string = never>(name: string, help: string, ...labels: Label[]) =>
    new Histogram({ name, help, labelNames: ["network", ...labels], buckets: SECONDS, registers });
  return {
    minedSeconds: histogram("relay_mined_seconds", "Time from signing a transaction to reading its receipt"),
    relays: counter("relays_total", "Mined relays; outcome succeeded or reverted", "outcome"),
    gasUsed: counter("relay_gas_total", "Gas used"),
    feeWei: counter("relay_fee_wei_total", "Fees paid, in wei"),
    raises: counter(
      "relay_fee_raises_total",
      "Pending transactions due for a higher fee; outcome raised, cap (no room below a cap), budget (daily budget used up), early (the ledger is behind), signer (the remote signer did not sign) or known (already stored)",
      "outcome",
    ),
    resendsDeferred: counter(
      "relay_resends_deferred_total",
      "Pending transactions due for rebroadcast that were not sent, because it was unknown whether they are still needed; why early (the ledger is behind, or the head too old) or outdated (nodes respond too slowly)",
      "why",
    ),
    headAgeSeconds: gauge(
      "relay_head_age_seconds",
      "Age of the newest block of the node that fees are read from; above RELAY_HEAD_MAX_AGE_S no payment is signed",
    ),
    signSeconds: histogram(
      "relayer_sign_seconds",
      "Time that the remote signer took to sign a transaction",
      "relayer",
    ),
    signFailures: counter(
      "relayer_sign_failures_total",
      "Transactions that the remote signer did not sign; kind timeout, unreachable, node-error, malformed or refused (by this worker: not a relay call)",
      "relayer",
      "kind",
    ),
    baseFeeWei: gauge("relay_base_fee_wei", "Base fee of the newest block, as last read"),
    balanceWei: gauge("relayer_balance_wei", "Balance of a relayer key, as last read", "relayer"),
  };
}
