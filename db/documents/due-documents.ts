/** Finds payments and refunds without a document, and documents that the ledger no longer supports, which become void. */
import type { Language } from "../../core/domain/language.ts";
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";
import { hasDocument, isAboutTransfer } from "./documents.ts";

/** A payment or refund without a document. */
export type DueDocument = {
  userId: string;
  linkId: string;
  /** For a payment of a reusable link: the reusable link. */
  parentId: string | null;
  network: NetworkId;
  txHash: Hex;
  logIndex: number;
  blockHash: Hex;
  blockNumber: bigint;
  happenedAt: Date;
  amountUnits: bigint;
  payer: Hex;
  recipient: Hex;
  paymentId: string | null;
  transactionId: string | null;
  refundId: string | null;
  receiptId: string | null;
  reason: string | null;
  description: string;
  reference: string | null;
  legalName: string | null;
  displayName: string | null;
  email: string;
  postalAddress: string | null;
  taxId: string | null;
  timeZone: string | null;
  /** The payer's language, for a credit note the receipt's, else the merchant's. Nothing else depends on it. */
  language: Language | null;
};

/** Confirmed transfers that pay these links, oldest first. */
export function findDueReceipts(tx: Tx, linkIds: readonly string[]): Promise<DueDocument[]> {
  return tx<DueDocument[]>`
    select
      link.user_id, link.id as link_id, link.parent_id, transfer.network, transfer.tx_hash, transfer.log_index, transfer.block_hash,
      transfer.block_number, transfer.block_time as happened_at, transfer.amount_units, transfer.from_address as payer,
      transfer.to_address as recipient, transfer.payment_id, history.id as transaction_id, null as refund_id, null as receipt_id,
      null as reason, link.description, link.reference, ${merchantFields(tx)},
      coalesce(
        payment.payer_language,
        -- when issued again after a reorganisation: in its earlier language
        (
          select earlier.language
          from documents earlier
          where link_moment(earlier.link_id) = link_moment(link.id)
            and earlier.link_id = link.id
            and earlier.tx_hash = transfer.tx_hash
            and earlier.kind = 'RECEIPT'
          order by earlier.year desc, earlier.is_test desc, earlier.number desc
          limit 1
        ),
        -- the language of the page that claimed this transfer, however it was attributed
        (
          select claim.payer_language
          from claims claim
          where claim.link_id = link.id
            and claim.tx_hash = hex_of(transfer.tx_hash)
            and claim.client_address = hex_of(transfer.from_address)
        ),
        books.document_language
      ) as language
    from payment_links link
    join transfers transfer on transfer.link_id = link.id and transfer.pays and transfer.status = 'CONFIRMED'
    join users merchant on merchant.id = link.user_id
    left join merchant_books books on books.user_id = link.user_id
    left join payments payment on payment.id = transfer.payment_id
    left join transactions history
      on history.transfer_id = transfer.id and history.owner = owner_key(link.user_id) and history.type = 'PAYMENT_LINK'
    where link.id = any(${[...linkIds]}::text[])
      and link.status = 'PAID'
      and not ${hasDocument(tx, "RECEIPT")}
    order by transfer.block_time, transfer.block_number, transfer.log_index`;
}

/** Confirmed refunds of these links, oldest first, with the receipt of the payment they return. */
export function findDueCreditNotes(tx: Tx, linkIds: readonly string[]): Promise<DueDocument[]> {
  return tx<DueDocument[]>`
    select
      link.user_id, link.id as link_id, link.parent_id, transfer.network, transfer.tx_hash, transfer.log_index, transfer.block_hash,
      transfer.block_number, transfer.block_time as happened_at, transfer.amount_units, transfer.from_address as payer,
      transfer.to_address as recipient, null as payment_id, history.id as transaction_id, refund.id as refund_id,
      receipt.id as receipt_id, refund.reason, link.description, link.reference, ${merchantFields(tx)},
      coalesce(
        (
          select earlier.language
          from documents earlier
          where link_moment(earlier.link_id) = link_moment(link.id)
            and earlier.link_id = link.id
            and earlier.refund_id = refund.id
          order by earlier.year desc, earlier.is_test desc, earlier.number desc
          limit 1
        ),
        receipt.language,
        books.document_language
      ) as language
    from refunds refund
    join wallet_operations op on op.id = refund.id and op.state = 'CONFIRMED'
    join payment_links link on link.id = refund.link_id
    join transactions history on history.operation_id = refund.id and history.status = 'CONFIRMED'
    join wallet_operation_items item on item.id = history.operation_item_id and not item.is_fee
    join transfers transfer on transfer.id = history.transfer_id and transfer.status = 'CONFIRMED'
    join users merchant on merchant.id = link.user_id
    left join merchant_books books on books.user_id = link.user_id
    left join lateral (
      select id, language
      from documents paid
      where log_digest(paid.network, paid.tx_hash, paid.log_index)
          = log_digest(refund.network, bytes_of(refund.paid_tx_hash), refund.paid_log_index)
        and paid.network = refund.network
        and paid.tx_hash = bytes_of(refund.paid_tx_hash)
        and paid.log_index = refund.paid_log_index
        and paid.kind = 'RECEIPT'
        and paid.voided_at is null
      offset 0
    ) receipt on true
    where refund.link_id = any(${[...linkIds]}::text[])
      and not ${hasDocument(tx, "CREDIT_NOTE")}
    order by transfer.block_time, transfer.block_number, transfer.log_index`;
}

function merchantFields(tx: Tx) {
  return tx`
    books.legal_name, merchant.display_name, merchant.email, books.postal_address, books.tax_id, books.time_zone`;
}

/**
 * Voids the documents whose transfer left the chain or is booked elsewhere: those of these links, and those of other links about transfers
 * that pay these links now, which would block the new documents. A transfer missing from the ledger is not a reason to void: it is
 * being read again.
 */
export async function voidDocuments(tx: Tx, linkIds: readonly string[]): Promise<string[]> {
  const ids = [...linkIds];
  const rows = await tx<{ id: string }[]>`
    -- each once: without statistics the planner would evaluate them per document
    with concerned as materialized (
      select document.id
      from documents document
      where link_moment(document.link_id) = any(array(select link_moment(id) from unnest(${ids}::text[]) as link (id)))
        and document.link_id = any(${ids}::text[])
        and document.voided_at is null
      union
      select document.id
      from transfers moved
      cross join lateral (
        select id
        from documents document
        where ${isAboutTransfer(tx, "moved")} and document.voided_at is null
        -- one index look-up per transfer, because a plain join read every document
        offset 0
      ) document
      where moved.link_id = any(${ids}::text[]) and moved.pays and moved.status <> 'ORPHANED'
    ),
    contradicted as materialized (
      select document.id, min(
        case
          when transfer.status = 'ORPHANED' or transfer.block_hash <> document.block_hash then 'REORGANISED'
          else 'REASSIGNED'
        end
      ) as reason
      from concerned
      join documents document on document.id = concerned.id
      join transfers transfer on transfer.network = document.network and transfer.tx_hash = document.tx_hash
      where case
          when transfer.block_hash <> document.block_hash then transfer.status <> 'ORPHANED'
          when transfer.log_index <> document.log_index then false
          when transfer.status = 'ORPHANED' then true
          else
            document.kind = 'RECEIPT'
            and transfer.status = 'CONFIRMED'
            and (not transfer.pays or transfer.link_id is distinct from document.link_id)
        end
      group by document.id
    )
    update documents document
    set voided_at = now(), void_reason = contradicted.reason
    from contradicted
    where document.id = contradicted.id and document.voided_at is null
    returning document.id`;
  return rows.map(({ id }) => id);
}
