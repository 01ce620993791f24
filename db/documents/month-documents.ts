/** Reads a merchant's documents of a month, and which payments and refunds of it have none yet. */
import type { Period } from "../../core/domain/local-days.ts";
import type { Tx } from "../postgres/client.ts";
import { hasDocument, type ShownDocument, type ShownRow, selectDocuments, toShown } from "./documents.ts";
import type { StoredDocument } from "./schema.ts";

/** A month's documents in number order, after the given one. */
export async function readDocuments(
  tx: Tx,
  { userId, from, before }: Period & { userId: string },
  { after, limit }: { after: StoredDocument | undefined; limit: number },
): Promise<ShownDocument[]> {
  const rows = await tx<ShownRow[]>`
    ${selectDocuments(tx)}
    where owner_key(document.user_id) = owner_key(${userId})
      and document.happened_at >= ${from} and document.happened_at < ${before}
      ${after === undefined ? tx`` : tx`and (document.kind, document.is_test, document.year, document.number) > (${after.kind}, ${after.isTest}, ${after.year}, ${after.number})`}
    order by document.kind, document.is_test, document.year, document.number
    limit ${limit}`;
  return rows.map(toShown);
}

/** The number of documents in a month, at most `limit`, because each is visited. */
export async function countDocuments(
  tx: Tx,
  { userId, from, before }: Period & { userId: string },
  limit: number,
): Promise<number> {
  const [row] = await tx<{ count: number }[]>`
    select count(*)::int as count
    from (
      select
      from documents
      where owner_key(user_id) = owner_key(${userId})
        and happened_at >= ${from} and happened_at < ${before}
      limit ${limit}
    ) found`;
  return row?.count ?? 0;
}

/** A merchant's links paid or refunded in a period for which a document is missing, oldest event first. */
export async function findUndocumentedLinks(
  tx: Tx,
  { userId, from, before }: Period & { userId: string },
  limit: number,
): Promise<string[]> {
  const rows = await tx<{ linkId: string }[]>`
    select link_id
    from (
      select history.link_id, history.detected_at
      from transactions history
      join transfers transfer on transfer.id = history.transfer_id
      join payment_links link on link.id = history.link_id
      where history.owner = owner_key(${userId}) and history.is_settled
        and history.status = 'CONFIRMED'
        and history.detected_at >= ${from} and history.detected_at < ${before}
        and history.type = 'PAYMENT_LINK' and transfer.pays and link.status = 'PAID'
        and not ${hasDocument(tx, "RECEIPT")}
      union all
      select refund.link_id, history.detected_at
      from (
        select operation_id, operation_item_id, transfer_id, detected_at
        from transactions
        where owner = owner_key(${userId})
          and cell in (transaction_cell('SEND', 'CONFIRMED', 'base'), transaction_cell('SEND', 'CONFIRMED', 'base-sepolia'))
          and is_settled
          and detected_at >= ${from} and detected_at < ${before}
          and starts_with(operation_id, 'rfd_')
        -- first what is of the period, whatever the planner thinks of the number of refunds
        offset 0
      ) history
      cross join lateral (
        select one.link_id
        from refunds one
        join wallet_operations op on op.id = one.id and op.state = 'CONFIRMED'
        join wallet_operation_items item on item.id = history.operation_item_id and not item.is_fee
        join transfers transfer on transfer.id = history.transfer_id and transfer.status = 'CONFIRMED'
        where one.id = history.operation_id and one.user_id = ${userId}
          and not ${hasDocument(tx, "CREDIT_NOTE")}
        offset 0
      ) refund
    ) due
    group by link_id
    order by min(detected_at), link_id
    limit ${limit}`;
  return rows.map(({ linkId }) => linkId);
}
