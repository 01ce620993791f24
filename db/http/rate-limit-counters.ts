/**
 * Rate-limit counters that all API processes share: one statement counts a request and returns the state of the window. The limits:
 * api/http/rate-limits.ts.
 */
import type { Tx } from "../postgres/client.ts";

export type Counter = { count: number; endsAt: Date };

/** Counts one request. A counter stops at `limit + 1`; its window begins with the first request and ends `windowS` later. */
export async function countRequest(
  tx: Tx,
  key: string,
  bound: { limit: number; windowS: number },
): Promise<Counter> {
  const [row] = await tx<Counter[]>`
    insert into rate_counters as counter (key, count, ends_at)
    values (${key}, 1, now() + make_interval(secs => ${bound.windowS}))
    on conflict (key) do update
    set count = case
          when counter.ends_at <= now() then 1
          else least(counter.count + 1, ${bound.limit + 1}::int)
        end,
        ends_at = case when counter.ends_at <= now() then excluded.ends_at else counter.ends_at end
    returning count, ends_at`;
  if (!row) throw new Error("counting a request returned no row");
  return row;
}
