/**
 * Operations whose event is read after their block was committed: which events are recorded already, and which transfers were stored
 * without their operation.
 */
import { formatUnits } from "../../core/domain/money.ts";
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import { recordEvents } from "../events/events.ts";
import type { Tx } from "../postgres/client.ts";
import { toByteaText } from "../postgres/hex-bytes.ts";

/** Positions of the EntryPoint events of our wallets that are recorded in a range. */
export async function findRecordedEvents(
  tx: Tx,
  network: NetworkId,
  { from, to }: { from: number; to: number },
): Promise<{ blockHash: Hex; logIndex: number }[]> {
  return tx<{ blockHash: Hex; logIndex: number }[]>`
    select block_hash, log_index
    from wallet_operation_events
    where network = ${network} and block_number between ${from}::bigint and ${to}::bigint`;
}

export type UnspentNonce = { address: Hex; accountNonce: bigint; preparedAt: Date };

/** Of the nonce sequence with key 0: nonces of other keys begin at 2^64. */
export const NONCES_OF_KEY_0 = 2n ** 64n;

/**
 * Accounts with an operation that waits, or that ended within a day and may still be executed, while no recorded operation spent its
 * nonce, of one key; with the lowest such nonce and the time since which it can have been spent: of an owner change that was signed for
 * every network, its preparation on the first one. Only accounts that are followed up to `number`.
 */
export async function findUnspentNonces(
  tx: Tx,
  network: NetworkId,
  { key, number, limit }: { key: bigint; number: number; limit: number },
): Promise<UnspentNonce[]> {
  return tx<UnspentNonce[]>`
    select wallet.address, min(op.account_nonce)::numeric(78, 0) as account_nonce,
      min(least(op.created_at, change.created_at)) as prepared_at
    from wallet_operations op
    join wallets wallet on wallet.id = op.wallet_id
    left join owner_changes change on change.id = op.owner_change_id
    where op.network = ${network}
      and wallet.indexed_from <= ${number}::bigint
      and div(op.account_nonce, ${NONCES_OF_KEY_0.toString()}::numeric) = ${key.toString()}::numeric
      and (
        op.state in ('QUEUED', 'SIGNED', 'BROADCAST')
        or op.state in ('EXPIRED', 'CANCELLED', 'FAILED') and op.updated_at > now() - interval '1 day'
      )
      and not exists (
        select from wallet_operation_events spent
        where spent.network = op.network and spent.sender = hex_of(wallet.address) and spent.nonce = op.account_nonce
      )
    group by wallet.address
    order by min(op.created_at)
    limit ${limit}`;
}

export type BookedTransfer = { itemId: bigint; blockHash: Hex; logIndex: number };

type Bound = {
  id: string;
  userId: string;
  status: string;
  amountUnits: bigint;
  txHash: Hex;
  logIndex: number;
  blockNumber: bigint;
  linkId: string | null;
};

export type FindBound = (tx: Tx, itemIds: readonly bigint[]) => Promise<BookedTransfer[]>;

/** Stored transfers that belong to one of these items already. */
export async function findBoundTransfers(tx: Tx, itemIds: readonly bigint[]): Promise<BookedTransfer[]> {
  return tx<BookedTransfer[]>`
    select history.operation_item_id as item_id, transfers.block_hash, transfers.log_index
    from transactions history
    join transfers on transfers.id = history.transfer_id
    where history.operation_item_id = any(${itemIds.map(String)}::text[]::bigint[])
      and transfers.status <> 'ORPHANED'`;
}

/** Remembers, until the transaction ends, which transfers belong to which items: equal ones may have been read in another order. */
export async function keepBoundTransfers(tx: Tx, network: NetworkId): Promise<void> {
  await tx`
    create temporary table past_items on commit drop as
    select history.operation_item_id as item_id, transfers.block_hash, transfers.log_index
    from transactions history
    join transfers on transfers.id = history.transfer_id
    where history.network = ${network} and history.operation_item_id is not null and transfers.status <> 'ORPHANED'`;
  await tx`create index on past_items (item_id)`;
}

/** Those of `keepBoundTransfers`. */
export async function findPastBoundTransfers(tx: Tx, itemIds: readonly bigint[]): Promise<BookedTransfer[]> {
  return tx<BookedTransfer[]>`
    select item_id, block_hash, log_index
    from past_items
    where item_id = any(${itemIds.map(String)}::text[]::bigint[])`;
}

/**
 * Transfers that were booked before their operation was known have a history row of their own, while the row that was opened at the
 * confirmation is still PENDING. The opened row becomes the transfer's and the other is deleted; without an opened row, the transfer's
 * row becomes the operation's. Transfers that are bound already stay as they are.
 */
export async function bindBookedTransfers(
  tx: Tx,
  network: NetworkId,
  transfers: readonly BookedTransfer[],
): Promise<void> {
  if (transfers.length === 0) return;
  const rows = transfers.map(({ itemId, blockHash, logIndex }) => ({
    item_id: itemId.toString(),
    block_hash: toByteaText(blockHash),
    log_index: logIndex,
  }));
  const bound = await tx<Bound[]>`
    with booked as (
      select history.id, item.id as item_id, item.operation_id, opened.id as opened_id
      from json_to_recordset(${JSON.stringify(rows)}::text::json)
        as given (item_id bigint, block_hash bytea, log_index int)
      join wallet_operation_items item on item.id = given.item_id
      join wallet_operations op on op.id = item.operation_id
      join transfers on transfers.network = ${network}
        and transfers.block_hash = given.block_hash
        and transfers.log_index = given.log_index
        and log_digest(transfers.network, transfers.block_hash, transfers.log_index)
          = log_digest(${network}, given.block_hash, given.log_index)
      join transactions history on history.transfer_id = transfers.id
        and history.owner = owner_key(op.user_id)
        and history.type = 'SEND'
        and history.operation_item_id is null
      left join transactions opened on opened.operation_item_id = item.id
    ),
    removed as (
      delete from transactions
      using booked
      where transactions.id = booked.id and booked.opened_id is not null
      returning
        booked.opened_id, transactions.status, transactions.counterparty, transactions.tx_hash, transactions.log_index,
        transactions.block_number, transactions.transfer_id, transactions.detected_at, transactions.confirmed_at
    ),
    claimed as (
      update transactions
      set operation_item_id = booked.item_id, operation_id = booked.operation_id, updated_at = now()
      from booked
      where transactions.id = booked.id and booked.opened_id is null
    )
    update transactions opened
    set
      status = removed.status, counterparty = removed.counterparty, tx_hash = removed.tx_hash,
      log_index = removed.log_index, block_number = removed.block_number, transfer_id = removed.transfer_id,
      failure_reason = null, detected_at = removed.detected_at, confirmed_at = removed.confirmed_at,
      updated_at = now()
    from removed
    where opened.id = removed.opened_id
    returning
      opened.id, user_of(opened.owner) as user_id, opened.status, opened.amount_units, opened.tx_hash,
      opened.log_index, opened.block_number, opened.link_id`;
  await recordEvents(
    tx,
    bound.map(({ id, userId, status, amountUnits, txHash, logIndex, blockNumber, linkId }) => ({
      userId,
      type: status === "CONFIRMED" ? ("transaction.confirmed" as const) : ("transaction.detected" as const),
      subjectId: id,
      data: {
        type: "SEND",
        amount: formatUnits(amountUnits),
        network,
        txHash,
        logIndex,
        blockNumber: Number(blockNumber),
        linkId,
        settledBy: null,
      },
    })),
  );
}
