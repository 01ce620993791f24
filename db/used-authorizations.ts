/**
 * An authorization that was executed before its payment was accepted here: the indexer booked the transfer without knowing
 * of the payment. Once the books reach the block in which the use was seen, they tell whether the money came to us.
 */
import type { Tx } from "./client.ts";
import type { Payment } from "./schema.ts";
import { refreshLinks, settlePayments } from "./settlement.ts";

export type BooksVerdict = "settled" | "not-ours" | "too-early";

type BookedTransfer = {
  id: bigint;
  txHash: string;
  logIndex: number;
  blockNumber: bigint;
  status: "DETECTED" | "CONFIRMED";
};

/** Call with the payment and then its link locked. `confirmations` is the network's depth until PAID, in blocks. */
export async function settleFromBooks(
  tx: Tx,
  order: { paymentId: string; seenAtBlock: bigint; confirmations: number },
): Promise<BooksVerdict> {
  const [payment] = await tx<(Payment & { booksNumber: bigint | null })[]>`
    select payments.*, cursors.number as books_number
    from payments
    left join cursors on cursors.network = payments.network
    where payments.id = ${order.paymentId} and payments.state = 'QUEUED'`;
  if (!payment) return "settled";
  if (payment.booksNumber === null || payment.booksNumber < order.seenAtBlock) return "too-early";
  const transfer = await adoptTransfer(tx, payment);
  if (!transfer) return "not-ours";
  await settlePayments(tx, [
    {
      id: payment.id,
      txHash: transfer.txHash,
      logIndex: transfer.logIndex,
      blockNumber: Number(transfer.blockNumber),
      isConfirmed: transfer.status === "CONFIRMED",
    },
  ]);
  await refreshLinks(tx, {
    linkIds: [payment.linkId],
    depthNumber: Number(payment.booksNumber) - order.confirmations + 1,
    isReorg: false,
  });
  return "settled";
}

/** Binds the transfer to payment and link when it paid exactly this link's terms within its life and pays nothing else. */
async function adoptTransfer(tx: Tx, payment: Payment): Promise<BookedTransfer | undefined> {
  const [transfer] = await tx<BookedTransfer[]>`
    update transfers
    set link_id = link.id, pays = true, payment_id = ${payment.id}
    from payment_links link
    where link.id = ${payment.linkId}
      and transfers.network = ${payment.network}
      and transfers.from_address = ${payment.payer}
      and transfers.authorization_nonce = ${payment.nonce}
      and transfers.to_address = link.recipient
      and transfers.amount_units = link.amount_units
      and transfers.block_time >= date_trunc('second', link.created_at)
      and transfers.status <> 'ORPHANED'
      and transfers.payment_id is null
      and (transfers.link_id is null or transfers.link_id = link.id)
      and not exists (
        select from transfers other
        where other.link_id = link.id and other.pays and other.status <> 'ORPHANED' and other.id <> transfers.id
      )
    returning transfers.id, transfers.tx_hash, transfers.log_index, transfers.block_number, transfers.status`;
  if (!transfer) return undefined;
  await tx`
    delete from transactions
    where payment_id = ${payment.id} and transfer_id is null`;
  await tx`
    update transactions
    set type = 'PAYMENT_LINK', link_id = link.id, description = link.description, payment_id = ${payment.id}, updated_at = now()
    from payment_links link
    where transactions.transfer_id = ${transfer.id}
      and link.id = ${payment.linkId}
      and transactions.user_id = link.user_id
      and transactions.type <> 'SEND'`;
  return transfer;
}
