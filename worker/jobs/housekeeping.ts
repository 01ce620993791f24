/**
 * The job that runs every minute: expires links, folds counters, deletes old rows (how old: core/domain/retention.ts). Each step is
 * independent and may run twice.
 */
import { EXPORT_ATTEMPTS_MAX } from "../../core/domain/export-lifetime.ts";
import type { Log } from "../../core/runtime/log.ts";
import { forgetSealedCodes } from "../../db/accounts/otps.ts";
import {
  deleteDeadJobs,
  deleteDeletedEndpoints,
  deleteDeliveriesOfDeleted,
  deleteLeftovers,
  deleteOldEvents,
  deleteOldSecurityEvents,
  deleteUnverifiedUsers,
  dropSignedBytes,
  LEFTOVER_NAMES,
} from "../../db/jobs/delete-old-rows.ts";
import { foldLinkCounts, foldTransactionCounts } from "../../db/jobs/fold-count-deltas.ts";
import { hasOverdueDelivery, takeOrphanedExports } from "../../db/jobs/missing-jobs.ts";
import { enqueue, type JobPayload } from "../../db/jobs/queue.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { notify } from "../../db/postgres/notifications.ts";
import { expireOperations } from "../../db/wallet-ops/expire-operations.ts";
import type { WorkerConfig } from "../config.ts";
import { expireDueLinks } from "../links/expire-links-job.ts";

const BATCH_ROWS = 10_000;
/** Batches per step; the rest waits for the next minute. */
const BATCHES_MAX = 50;
/** Accounts per run: deleting one scans every table that refers to users, some without an index for it. */
const UNVERIFIED_USERS = 200;
/** Exports restarted in a run. */
const ORPHANED_EXPORTS_MAX = 100;

/** If a step failed, throws after all steps, so that the queue retries. */
export async function housekeeping(
  { sql, log, config }: { sql: Sql; log: Log; config: Pick<WorkerConfig, "eventsKeptDays"> },
  _payload: JobPayload<"housekeeping">,
): Promise<void> {
  const steps: Record<string, () => Promise<number>> = {
    expiredLinks: () => expireDueLinks(sql),
    expiredOperations: () => inBatches(() => expireOperations(sql, { limit: BATCH_ROWS })),
    foldedTransactions: () => inBatches(() => sql.begin((tx) => foldTransactionCounts(tx, BATCH_ROWS))),
    foldedLinks: () => inBatches(() => sql.begin((tx) => foldLinkCounts(tx, BATCH_ROWS))),
    sealedCodes: () => inBatches(() => forgetSealedCodes(sql, BATCH_ROWS)),
    orphanedMessages: () => restartDeliveries(sql),
    orphanedExports: () => restartExports(sql),
    deadJobs: () => inBatches(() => deleteDeadJobs(sql, BATCH_ROWS)),
    oldEvents: () =>
      inBatches(() => deleteOldEvents(sql, { keptDays: config.eventsKeptDays, limit: BATCH_ROWS })),
    signedBytes: () => inBatches(() => dropSignedBytes(sql, BATCH_ROWS)),
    oldSecurityEvents: () => inBatches(() => sql.begin((tx) => deleteOldSecurityEvents(tx, BATCH_ROWS))),
    deliveriesOfDeleted: () => inBatches(() => deleteDeliveriesOfDeleted(sql, BATCH_ROWS)),
    deletedEndpoints: () => inBatches(() => deleteDeletedEndpoints(sql, BATCH_ROWS)),
    unverifiedUsers: () => deleteUnverifiedUsers(sql, UNVERIFIED_USERS),
  };
  for (const name of LEFTOVER_NAMES)
    steps[name] = () => inBatches(() => deleteLeftovers(sql, name, BATCH_ROWS));
  const done: Record<string, number> = {};
  const failures: unknown[] = [];
  for (const [name, run] of Object.entries(steps)) {
    try {
      const count = await run();
      if (count > 0) done[name] = count;
    } catch (error) {
      failures.push(error);
      log.warn({ step: name, err: error }, "housekeeping step failed");
    }
  }
  if (Object.keys(done).length > 0) log.info({ done }, "housekeeping");
  if (failures.length > 0)
    throw new AggregateError(failures, `${failures.length} housekeeping step(s) failed`);
}

async function inBatches(step: () => Promise<number>): Promise<number> {
  let done = 0;
  for (let batch = 0; batch < BATCHES_MAX; batch++) {
    const count = await step();
    done += count;
    if (count < BATCH_ROWS) break;
  }
  return done;
}

/** One job handles everything that is due. */
async function restartDeliveries(sql: Sql): Promise<number> {
  if (!(await hasOverdueDelivery(sql))) return 0;
  await enqueue(sql, "deliver_webhooks", {});
  return 1;
}

async function restartExports(sql: Sql): Promise<number> {
  return sql.begin(async (tx) => {
    const found = await takeOrphanedExports(tx, {
      attemptsMax: EXPORT_ATTEMPTS_MAX,
      limit: ORPHANED_EXPORTS_MAX,
    });
    for (const { id, status } of found)
      if (status !== "FAILED") await enqueue(tx, "build_export", { exportId: id });
    await notify(
      tx,
      found.filter(({ status }) => status === "FAILED").map(({ id }) => id),
    );
    return found.length;
  });
}
