/** What an operator watches of what waits, for Prometheus: read from the database when asked, and without values while that is away. */
import { Gauge, type Registry } from "prom-client";
import type { Sql } from "../db/client.ts";
import { countQueue, countWaitingPayments } from "../db/queue-depth.ts";

type Reading = { labels: Record<string, string>; value: number };

export function openWaitingMetrics(registry: Registry, sql: Sql): void {
  openGauge(registry, {
    name: "queue_jobs",
    help: "Jobs in the queue by task; state ready, waiting (for their time), running or failed",
    labelNames: ["task", "state"],
    async read() {
      const counts = await countQueue(sql);
      return counts.map(({ task, state, count }) => ({ labels: { task, state }, value: count }));
    },
  });
  openGauge(registry, {
    name: "payments_waiting",
    help: "Payments accepted and in no block; state QUEUED, or SIGNED when a transaction of ours carries them",
    labelNames: ["network", "state"],
    async read() {
      const counts = await countWaitingPayments(sql);
      return counts.map(({ network, state, count }) => ({ labels: { network, state }, value: count }));
    },
  });
  openGauge(registry, {
    name: "payments_oldest_seconds",
    help: "Age of the oldest payment that is accepted and in no block",
    labelNames: ["network"],
    async read() {
      const oldestLast = (await countWaitingPayments(sql)).toSorted((a, b) => a.oldestS - b.oldestS);
      return oldestLast.map(({ network, oldestS }) => ({ labels: { network }, value: oldestS }));
    },
  });
}

/** The process's other metrics are wanted most when the database is away: a reading that fails leaves this one out. */
function openGauge(
  registry: Registry,
  {
    read,
    ...described
  }: { name: string; help: string; labelNames: string[]; read: () => Promise<Reading[]> },
): void {
  new Gauge({
    ...described,
    registers: [registry],
    async collect() {
      const readings = await read().catch(() => []);
      this.reset();
      for (const { labels, value } of readings) this.set(labels, value);
    },
  });
}
