/**
 * Adds jobs that are missing: the queue gave up on them, or a worker died. The rows show what is left to do. Jobs that a dead worker still
 * holds are released by dead-workers.ts.
 */
import type { Tx } from "../postgres/client.ts";

/** Deliveries due for this long that no worker has taken. */
const DUE_FOR_S = 30;

/** Whether a delivery is overdue. */
export async function hasOverdueDelivery(tx: Tx): Promise<boolean> {
  const rows = await tx`
    select 1
    from webhook_endpoints endpoint
    where enabled
      and exists (
        select from webhook_deliveries delivery
        where delivery.endpoint_id = endpoint.id
          and delivery.state = 'PENDING'
          and delivery.next_try_at <= now() - make_interval(secs => ${DUE_FOR_S})
          and (delivery.lease_until is null or delivery.lease_until <= now())
      )
    limit 1`;
  return rows.length > 0;
}

/**
 * Exports without a job: those with `attemptsMax` attempts become FAILED, the others must be queued again.
 */
export async function takeOrphanedExports(
  tx: Tx,
  { attemptsMax, limit }: { attemptsMax: number; limit: number },
): Promise<{ id: string; status: "QUEUED" | "RUNNING" | "FAILED" }[]> {
  return tx<{ id: string; status: "QUEUED" | "RUNNING" | "FAILED" }[]>`
    update exports
    set
      status = case when attempts >= ${attemptsMax} then 'FAILED' else status end,
      error = case when attempts >= ${attemptsMax} then 'abandoned' else error end
    where id in (
        select id
        from exports
        where status in ('QUEUED', 'RUNNING')
          and not exists (
            select from graphile_worker.jobs
            where jobs.key = 'build_export:' || exports.id
              and (jobs.attempts < jobs.max_attempts or jobs.locked_at is not null)
          )
        limit ${limit}
        for update skip locked
      )
      and status in ('QUEUED', 'RUNNING')
    returning id, status`;
}
