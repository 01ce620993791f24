/**
 * Lists and counts a merchant's links that have an exception (UNDERPAID, OVERPAID, PAID_LATE, DUPLICATE), uses of reusable links among them.
 * When each applies: `LINK_EXCEPTIONS` of core/domain/link.ts.
 */
import type { Tx } from "../postgres/client.ts";
import { columns, type LinkFilter, type LinkPage, type LinkPosition } from "./links.ts";

/** A separate index finds the few there are; their status is read from the rows. */
export async function listExceptions(
  tx: Tx,
  { userId, status }: LinkFilter,
  { after, limit }: { after?: LinkPosition | undefined; limit: number },
): Promise<LinkPage> {
  return tx<LinkPage>`
    select *
    from (
      select ${columns(tx)}, timestamp_micros(created_at) as created_at_micros
      from payment_links link
      where owner_key(user_id) = owner_key(${userId})
        and user_id = ${userId}
        and exception <> 'NONE'
        ${after ? tx`and (created_at, id) < (to_timestamp_micros(${after.createdAtMicros}::bigint), ${after.id}::text)` : tx``}
    ) with_exception
    ${status === undefined ? tx`` : tx`where status = ${status}`}
    order by created_at desc, id desc
    limit ${limit}`;
}

/** How many such links there are. */
export async function countExceptions(tx: Tx, { userId, status }: LinkFilter): Promise<number> {
  const [row] = await tx<{ count: number }[]>`
    select count(*)::int as count
    from (
      select ${columns(tx)}
      from payment_links link
      where owner_key(user_id) = owner_key(${userId})
        and user_id = ${userId}
        and exception <> 'NONE'
    ) with_exception
    ${status === undefined ? tx`` : tx`where status = ${status}`}`;
  return row?.count ?? 0;
}
