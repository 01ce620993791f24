/** Metrics of payments. */
import { expect, test } from "bun:test";
import { Registry } from "prom-client";
import { openPayMetrics, openRelayLimitMetrics } from "../../api/x402/metrics.ts";

test("answers are timed by way and outcome, refusals counted by reason", async () => {
  const registry = new Registry();
  const metrics = openPayMetrics(registry);
  const message = "the authorization is for more than this link requires";
  const startedMs = performance.now() - 2_100;
  metrics.observe("json", { kind: "refused", reason: "AMOUNT_EXCEEDS_MAXIMUM", message }, startedMs);
  metrics.observe(
    "header",
    { kind: "paid-elsewhere", network: "base-sepolia", txHash: "0x1", logIndex: 0 },
    startedMs,
  );
  metrics.countUnreadable("json");
  const text = await registry.metrics();
  const lines = [
    'x402_refusals_total{way="json",reason="AMOUNT_EXCEEDS_MAXIMUM"} 1',
    'x402_refusals_total{way="json",reason="INVALID_PAYLOAD_STRUCTURE"} 1',
    'x402_pay_seconds_count{way="header",outcome="paid-elsewhere"} 1',
    'x402_pay_seconds_bucket{le="2",way="json",outcome="refused"} 0',
    'x402_pay_seconds_bucket{le="5",way="json",outcome="refused"} 1',
  ];
  for (const line of lines) expect(text).toContain(line);
});

test("terms refused by relay limits are counted by reason, and the limits are gauges", async () => {
  const registry = new Registry();
  openPayMetrics(registry).countUnrelayed("AMOUNT_TOO_SMALL_TO_RELAY");
  openRelayLimitMetrics(registry, { relayMinUnits: 1_000n, relayGasPerMerchantPerDay: 500_000_000n });
  const text = await registry.metrics();
  const lines = [
    'x402_terms_refused_total{reason="AMOUNT_TOO_SMALL_TO_RELAY"} 1',
    "x402_relay_min_amount_units 1000",
    "x402_relay_gas_per_merchant_per_day 500000000",
  ];
  for (const line of lines) expect(text).toContain(`${line}\n`);
});
