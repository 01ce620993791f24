import type { Leased } from "../../db/payments/queue.ts";
import type { Tx } from "../../db/postgres/client.ts";

/** These payments as a worker that leased them now would hold them. */
export function asLeased(sql: Tx, payments: readonly { id: string }[]): Promise<Leased[]> {
  return sql<Leased[]>`
    select id, timestamp_micros(updated_at) as updated_at_micros
    from payments
    where id = any(${payments.map(({ id }) => id)}::text[])`;
}
