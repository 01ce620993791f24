/** Work whose job is gone: the queue gave up on it, or a worker died at a bad moment. Rows say what is to be done; each is looked at by the clock. */
import type { Tx } from "../postgres/client.ts";

/** Messages due for this long without anybody at them. */
const DUE_FOR_S = 30;

/** Whether a message should long have been on its way. */
export async function hasStrayDelivery(tx: Tx): Promise<boolean> {
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
 * Exports without a job: those tried `attemptsMax` times are FAILED from now on, the others are to be put in the queue again.
 */
export async function takeStrayExports(
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
