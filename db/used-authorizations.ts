/**
 * An authorization the chain calls used or cancelled although we never sent it. Once the books reach the block in which that was
 * seen, they tell whether the money came to the link's wallet; then the indexer settles the payment, and nobody else.
 */
import type { Tx } from "./client.ts";

export type BooksVerdict = "too-early" | "came-to-us" | "not-ours";

/** Asks the books about one payment; `seenAtBlock` is a height at which the chain called its authorization used. */
export async function consultBooks(
  tx: Tx,
  order: { paymentId: string; seenAtBlock: bigint },
): Promise<BooksVerdict> {
  const [row] = await tx<{ isRead: boolean; cameToUs: boolean }[]>`
    select
      coalesce(cursors.number >= ${order.seenAtBlock}, false) as is_read,
      exists (
        select from transfers
        where transfers.network = payments.network
          and transfers.from_address = payments.payer
          and transfers.authorization_nonce = payments.nonce
          and transfers.to_address = payments.recipient
          and transfers.status <> 'ORPHANED'
          and (transfers.link_id is null or transfers.link_id = payments.link_id)
      ) as came_to_us
    from payments
    left join cursors on cursors.network = payments.network
    where payments.id = ${order.paymentId}`;
  if (row?.cameToUs) return "came-to-us";
  return row?.isRead ? "not-ours" : "too-early";
}
