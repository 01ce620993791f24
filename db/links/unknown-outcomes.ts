/**
 * Payments of a link whose outcome is unknown: they ended while no node answered, so that another transaction may have executed them. The
 * link's next payment is not signed before the chain has been asked about each (worker/payments/resolve-unknown-outcomes.ts), for at most
 * an hour (columns `doubt_since`, `doubt_until`). `failPayments` (db/payments/payments.ts) notes them.
 */
import type { Tx } from "../postgres/client.ts";

/** With this many, a link accepts no more payments. */
export const UNKNOWN_OUTCOMES_MAX = 8;

/** Maximum time an unknown outcome delays a link's next payment. */
const UNKNOWN_OUTCOME_MAX_S = 3_600;

/** SQL: until when the outcome of a payment that ends now is unknown: until its authorization expires, at most for an hour. */
export function unknownUntil(tx: Tx) {
  return tx`to_timestamp(least(valid_before, extract(epoch from now()) + ${UNKNOWN_OUTCOME_MAX_S}::int)::float8)`;
}

/** SQL: number of a link's payments whose outcome is unknown. `linkId` names a column. */
export function countUnknownOutcomes(tx: Tx, linkId: string) {
  return tx`
    (
      select count(*)
      from payments earlier
      where earlier.link_id = ${tx(linkId)}
        and earlier.doubt_until > now()
        and earlier.state = 'FAILED'
    )`;
}

/**
 * SQL: the row of `payment_links` that is named `link` has ended, with a payment whose outcome is unknown. It ended with that payment or
 * later, so that the payments of older ones are not looked for.
 */
export function hasEndedUnknown(tx: Tx, link: "use") {
  return tx`(
    ${tx(`${link}.updated_at`)} >= now() - make_interval(secs => ${UNKNOWN_OUTCOME_MAX_S}::int)
    and ${countUnknownOutcomes(tx, `${link}.id`)} > 0
  )`;
}

/** Whether a link has reached the limit of unknown outcomes. */
export async function hasTooManyUnknownOutcomes(tx: Tx, linkId: string): Promise<boolean> {
  const [row] = await tx<{ isFull: boolean }[]>`
    select ${countUnknownOutcomes(tx, "link.id")} >= ${UNKNOWN_OUTCOMES_MAX} as is_full
    from payment_links link
    where link.id = ${linkId}`;
  return row?.isFull ?? false;
}

export async function hasUnknownOutcome(tx: Tx, linkId: string): Promise<boolean> {
  const [row] = await tx<{ isUnknown: boolean }[]>`
    select ${countUnknownOutcomes(tx, "link.id")} > 0 as is_unknown
    from payment_links link
    where link.id = ${linkId}`;
  return row?.isUnknown ?? false;
}
