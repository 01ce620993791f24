/** Queue depth: jobs, and payments that are not mined yet. */
import type { NetworkId } from "../../core/domain/networks.ts";
import type { PaymentState } from "../../core/domain/payment.ts";
import type { Tx } from "../postgres/client.ts";

export type QueueCount = { task: string; state: "ready" | "waiting" | "running" | "failed"; count: number };

/** Jobs by task and state. Reads the library's private tables, because its public view omits the task's payload. */
export async function countQueue(tx: Tx): Promise<QueueCount[]> {
  return tx<QueueCount[]>`
    select
      task.identifier as task,
      case
        when job.locked_at is not null then 'running'
        when job.attempts >= job.max_attempts then 'failed'
        when job.run_at > now() then 'waiting'
        else 'ready'
      end as state,
      count(*)::int as count
    from graphile_worker._private_jobs job
    join graphile_worker._private_tasks task on task.id = job.task_id
    group by 1, 2`;
}

export type WaitingPayments = { network: NetworkId; state: PaymentState; count: number; oldestS: number };

/** Accepted payments that are not mined, and the age of the oldest in seconds. */
export async function countWaitingPayments(tx: Tx): Promise<WaitingPayments[]> {
  return tx<WaitingPayments[]>`
    select payments.network, state, count(*)::int as count, extract(epoch from now() - min(created_at))::float8 as oldest_s
    from open_payments
    join payments on payments.id = open_payments.payment_id
    group by payments.network, state`;
}
