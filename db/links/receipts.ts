/** Receipts: read from the ledger on each request, and queued for e-mailing when a link becomes PAID. */
import { RECEIPT_MAILS_PER_DAY, type Receipt } from "../../core/domain/receipt.ts";
import type { Tx } from "../postgres/client.ts";
import type { User } from "../schema.ts";
import type { MerchantPage } from "./schema.ts";

export type ReceiptRow = Omit<Receipt, "merchantName"> &
  Pick<User, "displayName" | "email"> &
  Pick<MerchantPage, "accent" | "logoDigest">;

/** `userId`: only this merchant's links. */
export type ReceiptPlace = {
  linkId: string;
  userId?: string | undefined;
  paymentId?: string | undefined;
  transactionId?: string | undefined;
  txHash?: string | undefined;
};

/** Of the transfer that pays the link, deep enough; undefined while there is none. */
export async function findReceipt(tx: Tx, place: ReceiptPlace): Promise<ReceiptRow | undefined> {
  const given = (column: string, value: string | undefined) =>
    value === undefined ? tx`` : tx`and ${tx(column)} = ${value}`;
  const [row] = await tx<ReceiptRow[]>`
    select
      link.id as link_id, transfer.payment_id, history.id as transaction_id, link.network, merchant.display_name, merchant.email,
      merchant_page.accent, merchant_page.logo_digest,
      link.description, link.reference, link.metadata, link.customer_email, transfer.from_address as payer,
      transfer.to_address as recipient, transfer.amount_units, transfer.tx_hash, transfer.log_index, transfer.block_number,
      transfer.block_time as paid_at, transfer.settled_by,
      (
        select coalesce(sum(refund.amount_units), 0)::bigint
        from refunds refund
        join wallet_operations op on op.id = refund.id
        where refund.link_id = link.id
          and refund.paid_tx_hash = hex_of(transfer.tx_hash)
          and refund.paid_log_index = transfer.log_index
          and op.state = 'CONFIRMED'
      ) as refunded_units
    from payment_links link
    join users merchant on merchant.id = link.user_id
    left join merchant_pages merchant_page on merchant_page.user_id = link.user_id
    join transfers transfer on transfer.link_id = link.id and transfer.pays and transfer.status = 'CONFIRMED'
    left join transactions history
      on history.transfer_id = transfer.id and history.owner = owner_key(link.user_id) and history.type = 'PAYMENT_LINK'
    where (
        link.id = ${place.linkId}
        or link.parent_id = ${place.paymentId === undefined && place.transactionId === undefined ? null : place.linkId}
      )
      and link.status = 'PAID'
      ${given("link.user_id", place.userId)}
      ${given("transfer.payment_id", place.paymentId)}
      ${given("history.id", place.transactionId)}
      ${given("transfer.tx_hash", place.txHash)}
    order by transfer.block_number, transfer.log_index
    limit 1`;
  return row;
}

/**
 * Records the receipts to e-mail to these links' customers, in the commit that made the links PAID; returns the new ones. A link that
 * the same transaction pays again after a reorganisation has already had its e-mail.
 */
export async function noteReceiptMails(tx: Tx, linkIds: readonly string[]): Promise<{ id: string }[]> {
  if (linkIds.length === 0) return [];
  return tx<{ id: string }[]>`
    insert into receipt_mails (link_id, user_id, tx_hash, log_index)
    select link.id, link.user_id, hex_of(transfer.tx_hash), transfer.log_index
    from payment_links link
    join transfers transfer on transfer.link_id = link.id and transfer.pays and transfer.status = 'CONFIRMED'
    where link.id = any(${[...linkIds]}::text[])
      and link.status = 'PAID'
      and link.customer_email is not null
      and (
        select count(*)
        from receipt_mails earlier
        where earlier.user_id = link.user_id and earlier.created_at > now() - interval '1 day'
      ) < ${RECEIPT_MAILS_PER_DAY}
    on conflict (link_id, tx_hash) do nothing
    returning id`;
}

export type UnsentReceipt = { linkId: string; txHash: string };

/** A receipt still to be sent; undefined when it was sent, or its link is gone. */
export async function findUnsentReceipt(tx: Tx, id: string): Promise<UnsentReceipt | undefined> {
  const [row] = await tx<UnsentReceipt[]>`
    select link_id, tx_hash
    from receipt_mails
    where id = ${id} and sent_at is null`;
  return row;
}

/** False when another worker is sending it. */
export async function markReceiptSent(tx: Tx, id: string): Promise<boolean> {
  const rows = await tx`
    update receipt_mails
    set sent_at = now()
    where id = ${id} and sent_at is null
    returning id`;
  return rows.length > 0;
}

/** The mail server refused it: nothing was sent. */
export async function markReceiptUnsent(tx: Tx, id: string): Promise<void> {
  await tx`
    update receipt_mails
    set sent_at = null
    where id = ${id}`;
}
