/** Lists the transfers of a link with what may still be refunded of each. The rule is `leftToRefund` of core/domain/refund.ts. */
import { leftToRefund, type RefundableTransfer, type RefundSums } from "../../core/domain/refund.ts";
import type { Tx } from "../postgres/client.ts";

/**
 * CONFIRMED transfers booked on a link, in the chain's order. A refund counts while its operation has moved money or still may: one that
 * ended without it frees its part. A transfer's refunds are found by its position in the chain, which is updated after reorganisations
 * (reorganised-refunds.ts), whichever link it was booked on when they were prepared. `except`: a refund that is about to make its reservation.
 */
export async function listRefundable(
  tx: Tx,
  linkId: string,
  { except }: { except?: string } = {},
): Promise<RefundableTransfer[]> {
  const rows = await tx<(Omit<RefundableTransfer, "leftUnits"> & Omit<RefundSums, "transferUnits">)[]>`
    with transfer as materialized (
      -- each half has its index
      select id, network, block_number, tx_hash, log_index, from_address, amount_units, pays, authorization_nonce from transfers where link_id = ${linkId} and pays and status = 'CONFIRMED'
      union all
      select id, network, block_number, tx_hash, log_index, from_address, amount_units, pays, authorization_nonce from transfers where link_id = ${linkId} and not pays and status = 'CONFIRMED'
    ),
    taken as (
      select refund.link_id, refund.network, refund.paid_tx_hash, refund.paid_log_index, refund.amount_units
      from refunds refund
      join wallet_operations op on op.id = refund.id
      where (
          refund.link_id = ${linkId}
          -- for a transfer that belonged to another link before a reorganisation
          or refund.paid_tx_hash = any(array(select hex_of(tx_hash) from transfer))
        )
        and ${isLive(tx)}
        and refund.id is distinct from ${except ?? null}::text
    )
    select
      transfer.tx_hash, transfer.log_index, transfer.from_address as sender, transfer.amount_units, transfer.pays,
      transfer.authorization_nonce is not null as is_authorization,
      (
        select id
        from transactions history
        where history.transfer_id = transfer.id and history.link_id = ${linkId} and history.type <> 'SEND'
        limit 1
      ) as transaction_id,
      coalesce(
        (
          select sum(taken.amount_units)
          from taken
          where taken.network = transfer.network
            and taken.paid_tx_hash = hex_of(transfer.tx_hash)
            and taken.paid_log_index = transfer.log_index
        ),
        0
      )::bigint as transfer_refunded_units,
      (sum(transfer.amount_units) over ())::bigint as link_units,
      coalesce((select sum(taken.amount_units) from taken where taken.link_id = ${linkId}), 0)::bigint as link_refunded_units
    from transfer
    order by transfer.block_number, transfer.log_index`;
  return rows.map(({ transferRefundedUnits, linkUnits, linkRefundedUnits, ...transfer }) => ({
    ...transfer,
    leftUnits: leftToRefund({
      transferUnits: transfer.amountUnits,
      transferRefundedUnits,
      linkUnits,
      linkRefundedUnits,
    }),
  }));
}

/** Whether any refund of this link has moved its money, or still may. */
export async function hasLiveRefunds(tx: Tx, linkId: string): Promise<boolean> {
  const rows = await tx`
    select
    from refunds refund
    join wallet_operations op on op.id = refund.id
    where refund.link_id = ${linkId} and ${isLive(tx)}
    limit 1`;
  return rows.length > 0;
}

/** Needs `op`: the operation has moved its money, or still may. */
export function isLive(tx: Tx) {
  return tx`(
    op.state not in ('EXPIRED', 'CANCELLED', 'FAILED')
    and not (op.state = 'AWAITING_SIGNATURE' and op.expires_at <= now())
  )`;
}
