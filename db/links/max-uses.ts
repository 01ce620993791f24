/**
 * How many uses of a reusable link are accepted: until the number that is paid, or open and may still be paid, reaches the link's maximum. One
 * definition for payers, the listing and the opening of uses.
 */
import type { Tx } from "../postgres/client.ts";
import type { PaymentLink } from "../schema.ts";

/** SQL: as many uses of `link` as it may have are paid, or may still be. Where nothing limits them, they are not counted. */
export function isUsedUp(tx: Tx) {
  return tx`
    case
      when link.is_reusable and link.max_payments is not null
      then link.max_payments <= ${countUses(tx, tx`link.id`)}
      else false
    end`;
}

/** The ids of those links that are, by their effective status. */
export async function findUsedUp(
  tx: Tx,
  links: readonly Pick<PaymentLink, "id" | "status" | "isReusable" | "maxPayments">[],
): Promise<ReadonlySet<string>> {
  const ids = links
    .filter(
      ({ status, isReusable, maxPayments }) => status === "ACTIVE" && isReusable && maxPayments !== null,
    )
    .map(({ id }) => id);
  if (ids.length === 0) return new Set();
  const rows = await tx<{ id: string }[]>`
    select link.id
    from payment_links link
    where link.id = any(${ids}::text[]) and ${isUsedUp(tx)}`;
  return new Set(rows.map(({ id }) => id));
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
