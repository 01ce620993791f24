/**
 * How many uses of a reusable link are accepted: until the number that is paid, or open and may still be paid, reaches the link's maximum. One
 * definition for payers, the listing and the opening of uses.
 */
import type { Tx } from "../postgres/client.ts";

/** SQL: as many uses of `link` as it may have are paid, or may still be. Where nothing limits them, they are not counted. */
export function isUsedUp(tx: Tx) {
  return tx`
    case
      when link.is_reusable and link.max_payments is not null
      then link.max_payments <= ${countUses(tx, tx`link.id`)}
      else false
    end`;
}

/** SQL: uses of the link with this id that are paid, or may still be in the ordinary way. */
export function countUses(tx: Tx, linkId: ReturnType<Tx>) {
  return tx`(
    select count(*)::int
    from payment_links use
    where use.parent_id = ${linkId}
      and (use.status in ('PENDING', 'PAID') or use.status = 'ACTIVE' and use.expires_at > now())
  )`;
}
