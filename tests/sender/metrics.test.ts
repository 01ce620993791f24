/** Metrics of relaying: what waits, and what is still served while the database is unavailable. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { Registry } from "prom-client";
import { openMetrics } from "../../core/runtime/metrics.ts";
import { openDatabase } from "../../db/postgres/client.ts";
import { findFreePort } from "../../local/free-port.ts";
import { openWaitingMetrics } from "../../worker/jobs/waiting-metrics.ts";
import { openRelayMetrics } from "../../worker/sender/metrics.ts";
import { accept, type BooksLab, openBooks } from "../support/ledger-lab.ts";
import { seedLink } from "../support/seed.ts";

const AGE_S = 90;
let lab: BooksLab;

beforeAll(async () => {
  lab = await openBooks();
});
afterAll(() => lab?.stop());

test("waiting payments are counted by state, with the age of the oldest", async () => {
  const registry = new Registry();
  openWaitingMetrics(registry, lab.sql);
  expect(await registry.metrics()).not.toContain("payments_waiting{");
  for (let count = 0; count < 3; count++) await accept(lab, await seedLink(lab.sql, lab.merchant));
  await lab.sql`update payments set created_at = now() - make_interval(secs => ${AGE_S}::float8)`;
  await lab.sql`update payments set state = 'SIGNED' where id = (select min(id) from payments)`;
  const text = await registry.metrics();
  expect(text).toContain('payments_waiting{network="base-sepolia",state="QUEUED"} 2\n');
  expect(text).toContain('payments_waiting{network="base-sepolia",state="SIGNED"} 1\n');
  const age = /payments_oldest_seconds\{network="base-sepolia"\} ([\d.]+)/.exec(text)?.[1];
  expect(Number(age)).toBeGreaterThanOrEqual(AGE_S);
  expect(Number(age)).toBeLessThan(AGE_S + 60);
});

test("behavior: metrics that need no database are served while it is unavailable", async () => {
  const sql = openDatabase(`postgres://nobody@127.0.0.1:${await findFreePort()}/none`, { name: "test" });
  const registry = new Registry();
  openWaitingMetrics(registry, sql);
  openRelayMetrics(registry).relays.inc({ network: "base-sepolia", outcome: "succeeded" });
  const text = await registry.metrics();
  expect(text).toContain('relays_total{network="base-sepolia",outcome="succeeded"} 1');
  expect(text).not.toContain("queue_jobs{");
  await sql.end({ timeout: 1 });
});

test("metrics are served on METRICS_HOST", async () => {
  const port = await findFreePort();
  const metrics = openMetrics("test", { port, host: "0.0.0.0" });
  const response = await fetch(`http://127.0.0.1:${port}/metrics`);
  expect(await response.text()).toContain('process_cpu_seconds_total{process="test"}');
  metrics.close();
});
