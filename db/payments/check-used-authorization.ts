/**
 * An authorization that the chain reports as used or cancelled although we never sent it. Once the ledger has read the block in which
 * that was seen, it shows whether the money reached the link's wallet; then the indexer alone settles the payment.
 */
import type { Tx } from "../postgres/client.ts";

/** A live indexer writes its cursor's row at least every 5 seconds. */
const INDEXER_SILENT_S = 15;

/** Too early: the indexer has not read that far, or is down. */
export type LedgerVerdict = "too-early" | "came-to-us" | "not-ours";

/** Checks the ledger for one payment; `seenAtBlock` is a height at which the chain reported its authorization as used. */
export async function checkUsedAuthorization(
  tx: Tx,
  order: { paymentId: string; seenAtBlock: bigint },
): Promise<LedgerVerdict> {
  const [row] = await tx<{ isRead: boolean; cameToUs: boolean }[]>`
    select
      coalesce(
        cursors.number >= ${order.seenAtBlock}
          and cursors.updated_at > now() - make_interval(secs => ${INDEXER_SILENT_S}::float8)
          and (wallet.id is null or wallet.backfilled_at is not null),
        false
      ) as is_read,
      exists (
        select from transfers
        where transfers.network = payments.network
          and transfers.from_address = payments.payer
          and transfers.authorization_nonce = payments.nonce
          and transfers.to_address = payments.recipient
          and transfers.status <> 'ORPHANED'
          -- a link's payment is also settled by transfers recorded before it; a facilitated one is not
          and payments.link_id is not null
          and (transfers.link_id is null or transfers.link_id = payments.link_id)
      ) as came_to_us
    from payments
    left join cursors on cursors.network = payments.network
    left join wallets wallet on wallet.network = payments.network and wallet.address = payments.recipient
    where payments.id = ${order.paymentId}`;
  if (!row?.isRead) return "too-early";
  return row.cameToUs ? "came-to-us" : "not-ours";
}
