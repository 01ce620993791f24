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

/** Beyond, the links of a list are not counted: the cost of a page would grow with the payments of its links. */
const LISTED_MAX = 1_000;

/** Which of these links are used up, by their effective status. Those of more payments than `LISTED_MAX` are left out. */
export async function findUsedUp(
  tx: Tx,
  links: readonly Pick<PaymentLink, "id" | "status" | "isReusable" | "maxPayments">[],
): Promise<ReadonlyMap<string, boolean>> {
  const limited = links.filter(
    ({ status, isReusable, maxPayments }) => status === "ACTIVE" && isReusable && maxPayments !== null,
  );
  const usedUp = new Map(links.map(({ id }) => [id, false]));
  const counted: string[] = [];
  for (const { id, maxPayments } of limited)
    if ((maxPayments ?? 0) <= LISTED_MAX) counted.push(id);
    else usedUp.delete(id);
  if (counted.length === 0) return usedUp;
  const rows = await tx<{ id: string }[]>`
    select link.id
    from payment_links link
    where link.id = any(${counted}::text[]) and ${isUsedUp(tx)}`;
  for (const { id } of rows) usedUp.set(id, true);
  return usedUp;
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
