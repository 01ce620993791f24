/** What a database says of money, in a form that two databases can be compared by. */
import type { Tx } from "../postgres/client.ts";

export type SettledLink = { id: string; status: string; paidUnits: bigint | null; txHash: string | null };

/** Every link; an open one counts as unpaid, whatever state its attempts are in. */
export async function listSettledLinks(tx: Tx): Promise<SettledLink[]> {
  return tx<SettledLink[]>`
    select
      link.id,
      case when link.status = 'PAID' then 'PAID' else 'unpaid' end as status,
      transfer.amount_units::numeric(78, 0) as paid_units,
      transfer.tx_hash
    from payment_links link
    left join transfers transfer on transfer.link_id = link.id and transfer.pays and transfer.status <> 'ORPHANED'
    order by link.id`;
}

export type TransferSum = { network: string; count: number; units: bigint };

/** Transfers to the wallets of these links, by network. */
export async function readTransferSums(tx: Tx, linkIds: readonly string[]): Promise<TransferSum[]> {
  return tx<TransferSum[]>`
    select network, count(*)::int as count, sum(amount_units)::numeric(78, 0) as units
    from transfers
    where status <> 'ORPHANED'
      and (network, to_address) in (select network, bytes_of(recipient) from payment_links where id = any (${linkIds}::text[]))
    group by network
    order by network`;
}
