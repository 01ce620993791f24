import type { Tx } from "../postgres/client.ts";

/** SQL: uses of the link with this id that are paid, or may still be in the ordinary way. */
export function countUses(tx: Tx, linkId: ReturnType<Tx>) {
  return tx`(
    select count(*)::int
    from payment_links use
    where use.parent_id = ${linkId}
      and (use.status in ('PENDING', 'PAID') or use.status = 'ACTIVE' and use.expires_at > now())
  )`;
}
