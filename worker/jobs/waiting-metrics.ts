/** Prometheus metrics of waiting jobs and payments, and of the last backup, read from the database at each scrape; without values while it is unavailable. */
import type { Registry } from "prom-client";
import { SEND_FAILURES_MAX } from "../../core/domain/wallet-operation.ts";
import { findLastBackup } from "../../db/backup/last-backup.ts";
import { countQueue, countWaitingPayments } from "../../db/jobs/queue-depth.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { countPausedSenders } from "../../db/wallet-ops/daily-gas-usage.ts";
import { countWaitingOperations } from "../../db/wallet-ops/queue.ts";
import { openGauge } from "../database-gauge.ts";

export function openWaitingMetrics(registry: Registry, sql: Sql): void {
  openGauge(registry, {
    name: "wallet_operations_waiting",
    help: "Sends and refunds signed by their owner and not mined yet, by state",
    labelNames: ["network", "state"],
    async read() {
      const counts = await countWaitingOperations(sql);
      return counts.map(({ network, state, count }) => ({ labels: { network, state }, value: count }));
    },
  });
  openGauge(registry, {
    name: "wallet_operations_oldest_seconds",
    help: "Age of the oldest send or refund signed by its owner and not mined yet",
    labelNames: ["network"],
    async read() {
      const oldestLast = (await countWaitingOperations(sql)).toSorted((a, b) => a.oldestS - b.oldestS);
      return oldestLast.map(({ network, oldestS }) => ({ labels: { network }, value: oldestS }));
    },
  });
  openGauge(registry, {
    name: "wallet_senders_paused",
    help: "Users barred from preparing sends for an hour after their sends failed on chain",
    labelNames: [],
    async read() {
      return [{ labels: {}, value: await countPausedSenders(sql, SEND_FAILURES_MAX) }];
    },
  });
  openGauge(registry, {
    name: "queue_jobs",
    help: "Jobs in the queue by task; state ready, waiting (scheduled for later), running or failed",
    labelNames: ["task", "state"],
    async read() {
      const counts = await countQueue(sql);
      return counts.map(({ task, state, count }) => ({ labels: { task, state }, value: count }));
    },
  });
  openGauge(registry, {
    name: "payments_waiting",
    help: "Payments accepted and not mined yet; state QUEUED, or SIGNED once a relay carries them",
    labelNames: ["network", "state"],
    async read() {
      const counts = await countWaitingPayments(sql);
      return counts.map(({ network, state, count }) => ({ labels: { network, state }, value: count }));
    },
  });
  openGauge(registry, {
    name: "payments_oldest_seconds",
    help: "Age of the oldest payment accepted and not mined yet",
    labelNames: ["network"],
    async read() {
      const oldestLast = (await countWaitingPayments(sql)).toSorted((a, b) => a.oldestS - b.oldestS);
      return oldestLast.map(({ network, oldestS }) => ({ labels: { network }, value: oldestS }));
    },
  });
  openGauge(registry, {
    name: "database_last_backup_timestamp_seconds",
    help: "Unix time of the newest backup that `backup` wrote and verified; absent before the first",
    labelNames: [],
    async read() {
      const last = await findLastBackup(sql);
      return last ? [{ labels: {}, value: last.takenAt.getTime() / 1_000 }] : [];
    },
  });
}
