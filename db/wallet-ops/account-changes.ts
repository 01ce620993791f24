/** Owner changes and upgrades of wallets on chain, including those not made through this service. */
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";

export type AccountChangeType = "OWNER_ADDED" | "OWNER_REMOVED" | "UPGRADED";

export type NewAccountChange = {
  blockNumber: number;
  blockHash: Hex;
  txHash: Hex;
  logIndex: number;
  walletAddress: Hex;
  type: AccountChangeType;
  ownerIndex: bigint | undefined;
  /** The owner, or the new implementation. */
  subject: Hex;
};

/** Stores them, each once even if read repeatedly. */
export async function recordAccountChanges(
  tx: Tx,
  network: NetworkId,
  changes: readonly NewAccountChange[],
): Promise<void> {
  if (changes.length === 0) return;
  const rows = changes.map((change) => ({
    block_number: change.blockNumber,
    block_hash: change.blockHash,
    tx_hash: change.txHash,
    log_index: change.logIndex,
    wallet_address: change.walletAddress,
    type: change.type,
    owner_index: change.ownerIndex?.toString() ?? null,
    subject: change.subject,
  }));
  await tx`
    insert into account_changes (
      network, block_number, block_hash, tx_hash, log_index, wallet_address, type, owner_index, subject
    )
    select ${network}, block_number, block_hash, tx_hash, log_index, wallet_address, type, owner_index, subject
    from json_to_recordset(${JSON.stringify(rows)}::text::json) as given (
      block_number bigint, block_hash text, tx_hash text, log_index int, wallet_address text, type text,
      owner_index bigint, subject text
    )
    on conflict do nothing`;
}

export type ConfirmedChange = {
  userId: string;
  walletId: string;
  walletAddress: Hex;
  type: AccountChangeType;
  subject: Hex;
  txHash: Hex;
  logIndex: number;
  /** Our owner change that made it; null when it was made without this service. */
  ownerChangeId: string | null;
  /** The owner that an account is deployed with. */
  isFirst: boolean;
};

type Depth = { network: NetworkId; depthNumber: number };

/** SQL: true when `confirmAccountChanges` would confirm a change. */
export function hasChangesAtDepth(tx: Tx, depth: Depth) {
  return tx`exists (select from account_changes where ${isUnconfirmedAtDepth(tx, depth)})`;
}

function isUnconfirmedAtDepth(tx: Tx, { network, depthNumber }: Depth) {
  return tx`network = ${network} and confirmed_at is null and block_number <= ${depthNumber}`;
}

/** Those at `depthNumber` and below that were not reported yet; each is returned once. */
export async function confirmAccountChanges(tx: Tx, depth: Depth): Promise<ConfirmedChange[]> {
  return tx<ConfirmedChange[]>`
    with confirmed as (
      update account_changes
      set confirmed_at = now()
      where ${isUnconfirmedAtDepth(tx, depth)}
      returning network, wallet_address, type, subject, owner_index, tx_hash, block_number, log_index
    )
    select
      wallet.user_id, wallet.id as wallet_id, confirmed.wallet_address, confirmed.type, confirmed.subject,
      confirmed.tx_hash, confirmed.log_index,
      (
        -- a transaction may run several changes of one wallet
        select change.id
        from wallet_operations op
        join owner_changes change on change.id = op.owner_change_id
        where op.wallet_id = wallet.id
          and op.tx_hash = confirmed.tx_hash
          and change.owner = confirmed.subject
          and change.action = case confirmed.type when 'OWNER_ADDED' then 'ADD' when 'OWNER_REMOVED' then 'REMOVE' end
        limit 1
      ) as owner_change_id,
      confirmed.type = 'OWNER_ADDED' and wallet.owners[confirmed.owner_index::int + 1] is not distinct from confirmed.subject
        as is_first
    from confirmed
    join wallets wallet on wallet.network = confirmed.network and wallet.address = bytes_of(confirmed.wallet_address)
    order by confirmed.block_number, confirmed.log_index`;
}

/** Deletes the changes in blocks above `ancestor`, which are searched again. */
export async function forgetAccountChanges(
  tx: Tx,
  { network, ancestor }: { network: NetworkId; ancestor: number },
): Promise<void> {
  await tx`
    delete from account_changes
    where network = ${network} and block_number > ${ancestor}`;
  await tx`
    update cursors
    set account_logs_number = least(account_logs_number, ${ancestor})
    where network = ${network} and account_logs_number is not null`;
}

/** The last block that was searched; null before the first search. */
export async function findAccountLogsNumber(tx: Tx, network: NetworkId): Promise<number | null> {
  const [row] = await tx<{ number: bigint | null }[]>`
    select account_logs_number as number
    from cursors
    where network = ${network}`;
  return row?.number == null ? null : Number(row.number);
}

/** From the number that was read to `to`. */
export async function noteAccountLogs(
  tx: Tx,
  { network, from, to }: { network: NetworkId; from: number | null; to: number },
): Promise<void> {
  await tx`
    update cursors
    set account_logs_number = ${to}
    where network = ${network} and account_logs_number is not distinct from ${from}`;
}

export type OutgoingTransfers = {
  userId: string;
  walletId: string;
  txHash: Hex;
  units: bigint;
  recipients: number;
  /** Null when there are several. */
  recipient: Hex | null;
  /** Made by one of our operations or payments. */
  isOurs: boolean;
};

type BlockRange = { network: NetworkId; after: number; to: number };

/** SQL: whether `listOutgoing` lists any once the transfers of its blocks are CONFIRMED. */
export function hasOutgoing(tx: Tx, range: BlockRange) {
  return tx`exists (select ${outgoingIn(tx, range)} and transfer.status <> 'ORPHANED')`;
}

function outgoingIn(tx: Tx, { network, after, to }: BlockRange) {
  return tx`
    from transfers transfer
    join wallets wallet on wallet.network = transfer.network and wallet.address = transfer.from_address
    where transfer.network = ${network}
      and transfer.block_number > ${after}
      and transfer.block_number <= ${to}
      and transfer.block_time > now() - interval '1 day'`;
}

/** Confirmed transfers out of wallets in a range of blocks, by transaction; none that are older than a day. */
export async function listOutgoing(tx: Tx, range: BlockRange): Promise<OutgoingTransfers[]> {
  return tx<OutgoingTransfers[]>`
    select
      wallet.user_id, wallet.id as wallet_id, transfer.tx_hash, sum(transfer.amount_units) as units,
      count(*)::int as recipients,
      case when count(*) = 1 then (array_agg(transfer.to_address))[1] end as recipient,
      bool_or(
        transfer.payment_id is not null
        or exists (
          select from wallet_operations op
          where op.wallet_id = wallet.id and op.tx_hash = hex_of(transfer.tx_hash) and op.succeeded
        )
      ) as is_ours
    ${outgoingIn(tx, range)} and transfer.status = 'CONFIRMED'
    group by wallet.user_id, wallet.id, transfer.tx_hash
    order by transfer.tx_hash`;
}
