/** Wallets whose earlier blocks are still to be read. */
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";
import { columnsOf } from "../postgres/columns-of.ts";
import { transfers } from "../schema.ts";

export type WalletToRead = { id: string; address: Hex; createdAt: Date; indexedFrom: bigint };

export async function findWalletsToRead(tx: Tx, network: NetworkId, limit: number): Promise<WalletToRead[]> {
  return tx<WalletToRead[]>`
    select id, address, created_at, indexed_from
    from wallets
    where network = ${network} and backfilled_at is null and indexed_from is not null
    order by created_at
    limit ${limit}`;
}

/** Marks it as done; `openingUnits` is the balance before the first block read, undefined when no node has that state. */
export async function markWalletsRead(
  tx: Tx,
  wallets: readonly { id: string; openingUnits: bigint | undefined }[],
): Promise<void> {
  await tx`
    update wallets
    set backfilled_at = now(), opening_units = given.opening_units
    from json_to_recordset(
      ${JSON.stringify(wallets.map(({ id, openingUnits }) => ({ id, opening_units: openingUnits?.toString() })))}::text::json
    ) as given (id text, opening_units numeric)
    where wallets.id = given.id`;
}

/** The next reconciliation of balances sets new ones. */
export async function forgetOpenings(tx: Tx, network: NetworkId, addresses: readonly Hex[]): Promise<void> {
  if (addresses.length === 0) return;
  await tx`
    update wallets
    set opening_units = null
    where network = ${network} and address = any(${[...addresses]}::bytea[])`;
}

/**
 * Adds history rows for transfers that were recorded for their other side before these wallets existed. Existing rows are unchanged.
 */
export async function addMissingHistory(
  tx: Tx,
  network: NetworkId,
  { addresses, from, to }: { addresses: readonly Hex[]; from: number; to: number },
): Promise<void> {
  await tx`
    with sides as (
      select
        wallet.user_id, ${columnsOf(tx, transfers, "transfer")}, 'IN' as side, case when pays then 'PAYMENT_LINK' else 'RECEIVE' end as type,
        from_address as counterparty
      from transfers transfer
      join wallets wallet on wallet.network = transfer.network and wallet.address = transfer.to_address
      where transfer.network = ${network}
        and transfer.to_address = any(${[...addresses]}::bytea[])
        and address_key(transfer.to_address) = any(array(
          select address_key(address) from unnest(${[...addresses]}::bytea[]) as given (address)
        ))
        and transfer.block_number between ${from}::bigint and ${to}::bigint
        and transfer.status <> 'ORPHANED'
      union all
      select wallet.user_id, ${columnsOf(tx, transfers, "transfer")}, 'OUT', 'SEND', to_address
      from transfers transfer
      join wallets wallet on wallet.network = transfer.network and wallet.address = transfer.from_address
      where transfer.network = ${network}
        and transfer.from_address = any(${[...addresses]}::bytea[])
        and address_key(transfer.from_address) = any(array(
          select address_key(address) from unnest(${[...addresses]}::bytea[]) as given (address)
        ))
        and transfer.block_number between ${from}::bigint and ${to}::bigint
        and transfer.status <> 'ORPHANED'
    ),
    added as (
      insert into transactions (
        id, owner, network, type, status, amount_units, counterparty, description, tx_hash, log_index, block_number,
        link_id, transfer_id, detected_at, confirmed_at, created_at
      )
      select
        'txn_' || md5(concat_ws(':', user_id, network, hex_of(tx_hash), log_index, side)),
        owner_key(user_id), network, type, status, amount_units, counterparty, '', tx_hash, log_index, block_number,
        case when side = 'IN' then link_id end, id, block_time, confirmed_at, block_time
      from sides
      where not exists (
        select from transactions
        where transactions.transfer_id = sides.id
          and transactions.owner = owner_key(sides.user_id)
          and (transactions.type = 'SEND') = (sides.side = 'OUT')
      )
      on conflict do nothing
      returning id, user_of(owner) as user_id, type, status, tx_hash, block_number
    )
    insert into events (user_id, type, subject_id, data)
    select
      user_id, case when status = 'CONFIRMED' then 'transaction.confirmed' else 'transaction.detected' end, id,
      jsonb_build_object('type', type, 'txHash', hex_of(tx_hash), 'blockNumber', block_number, 'network', ${network}::text)
    from added`;
}
