/** The payments that a pending relay carries, and those that it must no longer carry. */
import type { Hex } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";
import { columnsOf } from "../postgres/columns-of.ts";
import { type Payment, payments } from "../schema.ts";

/** The payments that one of our pending transactions still carries, in a fixed order. */
export async function findSignedPayments(
  tx: Tx,
  relayId: bigint,
): Promise<(Payment & { linkTag: Hex | null })[]> {
  return tx<(Payment & { linkTag: Hex | null })[]>`
    select ${columnsOf(tx, payments, "payments")}, (select tag from payment_links where id = payments.link_id) as link_tag
    from payments
    where id = any((select payment_ids from relay_payments where relay_id = ${relayId})::text[])
      and relay_id = ${relayId}
      and state = 'SIGNED'
    order by id`;
}

/** Payments in one of our pending transactions that it should no longer carry: failed, or queued or signed elsewhere. */
export async function findReleasedPayments(tx: Tx, relayId: bigint): Promise<string[]> {
  const rows = await tx<{ id: string }[]>`
    select payments.id
    from payments
    where id = any((select payment_ids from relay_payments where relay_id = ${relayId})::text[])
      and (relay_id is distinct from ${relayId} or state in ('QUEUED', 'FAILED'))
    order by id`;
  return rows.map(({ id }) => id);
}
