/** How full the job queue is. */
import type { Tx } from "./client.ts";

export type QueueCount = { task: string; state: "ready" | "waiting" | "running" | "failed"; count: number };

/** Jobs by task and state. Reads the library's own tables, for its public view leaves the task's payload in. */
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
