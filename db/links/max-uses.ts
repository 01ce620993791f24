/**
 * Whether a reusable link with a maximum of payments accepts another one: until as many uses are paid, or keep their places. One definition
 * for payers, the listing and the opening of uses (places.ts).
 */
import { CLAIMED_PLACE_MINUTES, SAFE_PLACE_MINUTES } from "../../core/domain/reusable-link.ts";
import type { Tx } from "../postgres/client.ts";
import type { PaymentLink } from "../schema.ts";
import { restsOnClaims } from "./rests-on-claims.ts";
import { countUnknownOutcomes, hasEndedUnknown } from "./unknown-outcomes.ts";

/** Of a payer whose address has begun no other payment of the link within the hour. */
const FIRST_RANK = 1;

/** SQL: no place of `link` is left for a payer who has begun no other payment of it. Where nothing limits them, they are not counted. */
export function isUsedUp(tx: Tx) {
  return tx`
    case
      when link.is_reusable and link.max_payments is not null
      then link.max_payments <= (
        select count(*)
        from payment_links use
        where use.parent_id = link.id and ${keepsPlace(tx, FIRST_RANK)}
      )
      else false
    end`;
}

/**
 * SQL: `use` keeps its place although a payer of this rank wants one. Paid, or held by a payment or a transfer, it always does, and while
 * the outcome of one of its payments is unknown, even when it has expired since. Otherwise its payer keeps it from payers whose address has
 * begun more payments than theirs: for SAFE_PLACE_MINUTES, or CLAIMED_PLACE_MINUTES while a claim holds it.
 */
export function keepsPlace(tx: Tx, rank: number) {
  const isBefore = (minutes: number) => tx`
    use.expires_at > now()
    and coalesce(use.place_rank, ${FIRST_RANK}) <= ${rank}::int
    and use.created_at > now() - make_interval(mins => ${minutes}::int)`;
  return tx`
    case use.status
      when 'PAID' then true
      when 'PENDING' then ${isBefore(CLAIMED_PLACE_MINUTES)} or not ${restsOnClaims(tx, "use")} or ${countUnknownOutcomes(tx, "use.id")} > 0
      when 'ACTIVE' then ${isBefore(SAFE_PLACE_MINUTES)} or ${countUnknownOutcomes(tx, "use.id")} > 0
      when 'EXPIRED' then ${hasEndedUnknown(tx, "use")}
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
