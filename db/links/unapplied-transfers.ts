/**
 * Links without a holder that still have an attributed transfer of their amount: the payment or transfer that preceded it is gone.
 * They stay PENDING and accept nothing new until the indexer makes that transfer the one that pays them.
 */

import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import type { SettledBy } from "../../core/domain/settled-by.ts";
import type { Tx } from "../postgres/client.ts";

/**
 * SQL: whether a canonical transfer of exactly its amount is attributed to a link without paying it. `link` names a table or alias with
 * a link's id and amounts.
 */
export function hasUnappliedTransfer(
  tx: Tx,
  link: { id: string; amountUnits: string; payAmountUnits: string },
) {
  return tx`
    exists (
      select from transfers spare
      where spare.link_id = ${tx(link.id)}
        and not spare.pays
        and spare.status <> 'ORPHANED'
        and spare.amount_units in (${tx(link.amountUnits)}, ${tx(link.payAmountUnits)})
    )`;
}

export type UnappliedTransfer = {
  transferId: bigint;
  linkId: string;
  settledBy: SettledBy | null;
  txHash: Hex;
  logIndex: number;
  blockNumber: bigint;
  status: "DETECTED" | "CONFIRMED";
  paymentId: string | null;
  claimId: string | null;
};

/**
 * The transfer that will pay each such link: the earliest, except that one with a settled payment precedes those of failed payments,
 * because at most one payment of a link is not FAILED.
 */
export async function findUnappliedTransfers(tx: Tx, network: NetworkId): Promise<UnappliedTransfer[]> {
  return tx<UnappliedTransfer[]>`
    select distinct on (link.id)
      transfer.id as transfer_id, link.id as link_id, transfer.settled_by, transfer.tx_hash, transfer.log_index, transfer.block_number,
      transfer.status, transfer.payment_id,
      (
        select claim_id
        from transactions history
        where history.transfer_id = transfer.id and history.type <> 'SEND'
      ) as claim_id
    from payment_links link
    join transfers transfer on transfer.link_id = link.id
    left join payments payment on payment.id = transfer.payment_id
    where link.network = ${network}
      and link.is_released
      and not transfer.pays
      and transfer.status <> 'ORPHANED'
      and transfer.amount_units in (link.amount_units, link.pay_amount_units)
      and not exists (
        select from transfers paying
        where paying.link_id = link.id and paying.pays and paying.status <> 'ORPHANED'
      )
      and not exists (
        select from payments live
        where live.link_id = link.id and live.is_live and live.state in ('QUEUED', 'SIGNED', 'BROADCAST')
      )
    order by
      link.id, (payment.id is not null and payment.state <> 'FAILED') desc, transfer.block_number, transfer.log_index`;
}
