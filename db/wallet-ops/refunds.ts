/** Refunds of links: what is left of each transfer, reserved under the link's lock, and what has gone back. */
import type { Refund, RefundableTransfer, RefundSource } from "../../core/domain/refund.ts";
import type { Tx } from "../postgres/client.ts";

/**
 * CONFIRMED transfers booked on a link, in the chain's order, with what no refund has taken or reserved. Operations that ended without
 * moving money free their part.
 */
export async function listRefundable(tx: Tx, linkId: string): Promise<RefundableTransfer[]> {
  return tx<RefundableTransfer[]>`
    select
      transfer.tx_hash, transfer.log_index, transfer.from_address as sender, transfer.amount_units, transfer.pays,
      transfer.authorization_nonce is not null as is_authorization,
      (
        select id
        from transactions history
        where history.transfer_id = transfer.id and history.link_id = ${linkId} and history.type <> 'SEND'
        limit 1
      ) as transaction_id,
      (transfer.amount_units - coalesce(
        (
          select sum(refund.amount_units)
          from refunds refund
          join wallet_operations op on op.id = refund.id
          where refund.link_id = ${linkId}
            and refund.paid_tx_hash = transfer.tx_hash
            and refund.paid_log_index = transfer.log_index
            and op.state not in ('EXPIRED', 'CANCELLED', 'FAILED')
            and not (op.state = 'AWAITING_SIGNATURE' and op.expires_at <= now())
        ),
        0
      ))::bigint as left_units
    -- each half has its index
    from (
      select * from transfers where link_id = ${linkId} and pays and status = 'CONFIRMED'
      union all
      select * from transfers where link_id = ${linkId} and not pays and status = 'CONFIRMED'
    ) transfer
    order by transfer.block_number, transfer.log_index`;
}

/** Serialises everything that reserves or moves a link's money. */
export async function lockForRefunds(tx: Tx, linkId: string): Promise<void> {
  await tx`
    select
    from payment_links
    where id = ${linkId}
    for no key update`;
}

export type NewRefund = Pick<
  Refund,
  "id" | "userId" | "linkId" | "network" | "paidTxHash" | "paidLogIndex" | "toAddress" | "amountUnits"
> & { toSource: RefundSource; reason: string | null };

export async function insertRefund(tx: Tx, refund: NewRefund): Promise<void> {
  await tx`
    insert into refunds (
      id, user_id, link_id, network, paid_tx_hash, paid_log_index, to_address, to_source, amount_units, reason
    )
    values (
      ${refund.id}, ${refund.userId}, ${refund.linkId}, ${refund.network}, ${refund.paidTxHash}, ${refund.paidLogIndex},
      ${refund.toAddress}, ${refund.toSource}, ${refund.amountUnits}, ${refund.reason}
    )`;
}

export async function findRefund(
  tx: Tx,
  { id, userId }: { id: string; userId: string },
): Promise<Refund | undefined> {
  const [row] = await tx<Refund[]>`
    select *
    from refunds
    where id = ${id} and user_id = ${userId}`;
  return row;
}

/** Newest first. */
export async function listRefunds(tx: Tx, linkId: string, limit: number): Promise<Refund[]> {
  return tx<Refund[]>`
    select *
    from refunds
    where link_id = ${linkId}
    order by id desc
    limit ${limit}`;
}

/** Whether any refund of this link has moved its money, or still may. */
export async function hasLiveRefunds(tx: Tx, linkId: string): Promise<boolean> {
  const rows = await tx`
    select
    from refunds refund
    join wallet_operations op on op.id = refund.id
    where refund.link_id = ${linkId}
      and op.state not in ('EXPIRED', 'CANCELLED', 'FAILED')
      and not (op.state = 'AWAITING_SIGNATURE' and op.expires_at <= now())
    limit 1`;
  return rows.length > 0;
}

/** Counts what has gone back again for the links of these operations. Returns the links. */
export async function refreshRefundedUnits(tx: Tx, operationIds: readonly string[]): Promise<string[]> {
  if (operationIds.length === 0) return [];
  const rows = await tx<{ id: string }[]>`
    with concerned as (
      select link.id
      from payment_links link
      where link.id in (select link_id from refunds where id = any(${[...operationIds]}::text[]))
      order by link.id
      for no key update
    )
    update payment_links link
    set
      refunded_units = (
        select coalesce(sum(refund.amount_units), 0)
        from refunds refund
        join wallet_operations op on op.id = refund.id
        where refund.link_id = link.id and op.state = 'CONFIRMED'
      ),
      updated_at = now()
    from concerned
    where link.id = concerned.id
    returning link.id`;
  return rows.map(({ id }) => id);
}
