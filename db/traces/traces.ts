/**
 * Which trace an accepted payment or send belongs to, from its request until its transaction is mined. Written only while traces are
 * exported; advisory, in an unlogged table.
 */
import type { Tx } from "../postgres/client.ts";

export type StoredTrace = { subjectId: string; traceparent: string };

/** A retry's trace replaces the first one. */
export async function storeTraces(tx: Tx, traces: readonly StoredTrace[]): Promise<void> {
  if (traces.length === 0) return;
  await tx`
    insert into traces (subject_id, traceparent)
    select distinct on (subject_id) subject_id, traceparent
    from unnest(
      ${traces.map(({ subjectId }) => subjectId)}::text[], ${traces.map(({ traceparent }) => traceparent)}::text[]
    ) as given (subject_id, traceparent)
    on conflict (subject_id) do update
    set traceparent = excluded.traceparent, created_at = now()`;
}

export async function findTraces(tx: Tx, subjectIds: readonly string[]): Promise<Map<string, string>> {
  const rows = await tx<StoredTrace[]>`
    select subject_id, traceparent
    from traces
    where subject_id = any(${[...subjectIds]}::text[])`;
  return new Map(rows.map(({ subjectId, traceparent }) => [subjectId, traceparent]));
}

/** Of what these relays carry. */
export async function findTracesOfRelays(
  tx: Tx,
  relayIds: readonly bigint[],
): Promise<(StoredTrace & { relayId: bigint })[]> {
  return tx<(StoredTrace & { relayId: bigint })[]>`
    with carried as (
      select payments.relay_id, payments.id
      from relay_payments bound
      join payments on payments.id = any(bound.payment_ids) and payments.relay_id = bound.relay_id
      where bound.relay_id = any(${relayIds.map(String)}::text[]::bigint[])
      union all
      select relay_id, id
      from wallet_operations
      where relay_id = any(${relayIds.map(String)}::text[]::bigint[])
    )
    select carried.relay_id, traces.subject_id, traces.traceparent
    from carried
    join traces on traces.subject_id = carried.id`;
}
