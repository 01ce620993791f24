/** Transfers of our wallets and their history rows, written together: set-based and idempotent. */

import { formatUnits } from "../../core/domain/money.ts";
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import type { SettledBy } from "../../core/domain/settled-by.ts";
import type { Tx } from "../postgres/client.ts";
import { toByteaText } from "../postgres/hex-bytes.ts";

export type NewTransfer = {
  blockNumber: number;
  blockHash: Hex;
  blockTimeS: number;
  txHash: Hex;
  logIndex: number;
  from: Hex;
  to: Hex;
  amountUnits: bigint;
  authorizationNonce: Hex | undefined;
  /** Time of the block that confirmed it; undefined while it is not deep enough. */
  confirmedAtS: number | undefined;
  linkId: string | undefined;
  pays: boolean;
  settledBy: SettledBy | undefined;
  /** Links that fit, when no evidence decided between them. */
  candidates: readonly string[];
  paymentId: string | undefined;
  /** The payment or claim whose open history row becomes this transfer's. */
  historyPaymentId: string | undefined;
  historyClaimId: string | undefined;
  /** For a transfer made by one of our user operations. */
  operationItemId: bigint | undefined;
};

/**
 * Stores transfers that are new, or back from a reorganisation, with a history row for each side that is a wallet of ours,
 * and the events of both. Existing rows are unchanged. History ids derive from the log, so a rebuild creates the same ones. A transfer
 * that is already deep enough gets only its confirmation event: a "detected" event in the same commit would be redundant.
 */
export async function storeTransfers(
  tx: Tx,
  network: NetworkId,
  transfers: readonly NewTransfer[],
): Promise<void> {
  for (let start = 0; start < transfers.length; start += STATEMENT_ROWS)
    await storePart(tx, network, transfers.slice(start, start + STATEMENT_ROWS));
}

/**
 * Of a statement: each has a delivery to every webhook endpoint of its merchant, 20 at most, and a statement is cancelled after 30 s. Somebody who
 * sends a merchant 40,000 transfers in one block would stop the network with a single one.
 */
export const STATEMENT_ROWS = 2_000;

async function storePart(tx: Tx, network: NetworkId, transfers: readonly NewTransfer[]): Promise<void> {
  // without them the statement is half as large, which speeds up writing a block
  const mayBeOpen = transfers.some(
    ({ historyPaymentId, historyClaimId, operationItemId }) =>
      historyPaymentId !== undefined || historyClaimId !== undefined || operationItemId !== undefined,
  );
  await tx`
    with given as (
      select *
      from json_to_recordset(${JSON.stringify(transfers.map(toRow))}::text::json) as row (
        block_number bigint, block_hash bytea, block_time timestamptz, tx_hash bytea, log_index int, from_address bytea,
        to_address bytea, amount_units numeric, authorization_nonce bytea, confirmed_at timestamptz, link_id text,
        pays boolean, settled_by text, candidates text[], payment_id text, history_payment_id text,
        history_claim_id text, operation_item_id bigint, amount text
      )
    ),
    -- back from a reorganisation. Apart from what is new: an insert that may meet a conflict writes a second record for each row.
    -- Nobody else stores transfers of these blocks: the cursor's row is locked, or they are above those of whoever has it
    known as (
      select given.*, transfer.id, transfer.status as known_status
      from given
      cross join lateral (
        select id, status
        from transfers
        where log_digest(transfers.network, transfers.block_hash, transfers.log_index)
          = log_digest(${network}, given.block_hash, given.log_index)
        limit 1
      ) transfer
    ),
    revived as (
      update transfers
      set
        status = case when known.confirmed_at is null then 'DETECTED' else 'CONFIRMED' end,
        confirmed_at = known.confirmed_at, link_id = known.link_id, pays = known.pays, settled_by = known.settled_by,
        candidates = known.candidates, payment_id = known.payment_id
      from known
      where transfers.id = known.id and known.known_status = 'ORPHANED'
      returning transfers.id, transfers.block_hash, transfers.log_index, transfers.status
    ),
    added as (
      insert into transfers (
        network, block_number, block_hash, block_time, tx_hash, log_index, from_address, to_address, amount_units,
        authorization_nonce, status, confirmed_at, link_id, pays, settled_by, candidates, payment_id
      )
      select
        ${network}, block_number, block_hash, block_time, tx_hash, log_index, from_address, to_address, amount_units,
        authorization_nonce, case when confirmed_at is null then 'DETECTED' else 'CONFIRMED' end, confirmed_at,
        link_id, pays, settled_by, candidates, payment_id
      from given
      where not exists (
          select from known
          where known.block_hash = given.block_hash and known.log_index = given.log_index
        )
      returning id, block_hash, log_index, status
    ),
    fresh as (
      select given.*, stored.id as transfer_id, stored.status
      from (select * from added union all select * from revived) stored
      join given using (block_hash, log_index)
    ),
    sides as (
      select
        wallet.user_id, 'IN' as side, case when pays then 'PAYMENT_LINK' else 'RECEIVE' end as type,
        from_address as counterparty, coalesce(link.description, '') as description, link_id,
        settled_by, candidates, history_payment_id as payment_id, history_claim_id as claim_id,
        null::bigint as operation_item_id, null::text as operation_id, transfer_id, fresh.status, fresh.amount_units, tx_hash, log_index, block_number, block_time, confirmed_at, amount
      from fresh
      cross join lateral (
        select user_id
        from wallets
        where network = ${network} and address = fresh.to_address
        limit 1
      ) wallet
      left join lateral (
        select description
        from payment_links
        where id = fresh.link_id
        limit 1
      ) link on true
      union all
      select
        wallet.user_id, 'OUT', 'SEND', to_address, '', null, null, null, null, null, fresh.operation_item_id,
        (select operation_id from wallet_operation_items where id = fresh.operation_item_id), transfer_id, fresh.status, fresh.amount_units, tx_hash, log_index, block_number, block_time, confirmed_at, amount
      from fresh
      cross join lateral (
        select user_id
        from wallets
        where network = ${network} and address = fresh.from_address
        limit 1
      ) wallet
    ),
    ${mayBeOpen ? adoptOpenRows(tx, network) : tx``}
    inserted as (
      insert into transactions (
        id, owner, network, type, status, amount_units, counterparty, description, tx_hash, log_index, block_number,
        link_id, settled_by, candidates, payment_id, claim_id, operation_item_id, operation_id, transfer_id, detected_at,
        confirmed_at, created_at
      )
      select
        'txn_' || md5(concat_ws(':', user_id, ${network}::text, hex_of(tx_hash), log_index, side)),
        owner_key(user_id), ${network}, type, status, amount_units, counterparty, description, tx_hash, log_index, block_number,
        link_id, settled_by, candidates, payment_id, claim_id, operation_item_id, operation_id, transfer_id, block_time,
        confirmed_at, block_time
      from sides
      ${
        mayBeOpen
          ? tx`
      where not exists (
          select from open_rows
          where open_rows.transfer_id = sides.transfer_id and open_rows.side = sides.side
        )
        and not exists (
          select from unwritten
          where unwritten.transfer_id = sides.transfer_id and unwritten.side = sides.side
        )`
          : tx``
      }
      on conflict (id) do update
      set
        type = excluded.type, status = excluded.status, amount_units = excluded.amount_units,
        counterparty = excluded.counterparty, description = excluded.description,
        block_number = excluded.block_number, link_id = excluded.link_id, settled_by = excluded.settled_by,
        candidates = excluded.candidates, payment_id = excluded.payment_id, claim_id = excluded.claim_id,
        operation_item_id = excluded.operation_item_id, operation_id = excluded.operation_id, transfer_id = excluded.transfer_id, detected_at = excluded.detected_at,
        confirmed_at = excluded.confirmed_at, updated_at = now()
      returning id, owner, transfer_id, type, status
    ),
    written as (
      select * from inserted
      ${
        mayBeOpen
          ? tx`
      union all
      select * from adopted
      union all
      select * from begun`
          : tx``
      }
    )
    insert into events (user_id, type, subject_id, data)
    select
      user_of(written.owner), case written.status when 'CONFIRMED' then 'transaction.confirmed' else 'transaction.detected' end, written.id,
      jsonb_build_object(
        'type', written.type, 'amount', fresh.amount, 'network', ${network}::text,
        'txHash', hex_of(fresh.tx_hash), 'logIndex', fresh.log_index, 'blockNumber', fresh.block_number, 'linkId', fresh.link_id,
        'settledBy', fresh.settled_by
      )
    from written
    join fresh using (transfer_id)
    order by fresh.block_number, fresh.log_index`;
}

/** SQL: rows of the history that the API opened for payments, claims and sends become those of their transfers. */
function adoptOpenRows(tx: Tx, network: NetworkId) {
  return tx`
    -- payments whose history row is not written yet. Also where a block that is gone has left the log's own row, ORPHANED: the payment has
    -- been PENDING in the history by its own id since
    unwritten as (
      select sides.transfer_id, sides.side, payment.id, link.description, payment.created_at
      from sides
      cross join lateral (
        select id, link_id, created_at
        from payments
        where id = sides.payment_id
        limit 1
      ) payment
      cross join lateral (
        select user_id, description
        from payment_links
        where id = payment.link_id
        limit 1
      ) link
      where link.user_id = sides.user_id
        and not exists (
          select from transactions written
          where written.payment_id = payment.id
        )
    ),
    open_rows as (
      ${selectOpenRows(tx, "payment_id")}
      union all
      ${selectOpenRows(tx, "claim_id")}
        and not exists (
          select from transactions paid
          where paid.payment_id = sides.payment_id and paid.owner = owner_key(sides.user_id)
        )
        and not exists (
          select from unwritten
          where unwritten.transfer_id = sides.transfer_id
        )
      union all
      ${selectOpenRows(tx, "operation_item_id")}
    ),
    -- one row per transfer: the payment's row, even if it was also claimed
    replaced as (
      delete from transactions
      using sides
      where transactions.claim_id = sides.claim_id
        and transactions.transfer_id is null
        and transactions.payment_id is null
        and (
          exists (
            select from transactions paid
            where paid.payment_id = sides.payment_id and paid.owner = owner_key(sides.user_id)
          )
          or exists (
            select from unwritten
            where unwritten.transfer_id = sides.transfer_id
          )
        )
    ),
    adopted as (
      update transactions
      set
        type = given.type, status = given.status, amount_units = given.amount_units, counterparty = given.counterparty,
        tx_hash = given.tx_hash, log_index = given.log_index, block_number = given.block_number,
        link_id = case when given.side = 'OUT' then transactions.link_id else given.link_id end,
        settled_by = given.settled_by, candidates = given.candidates, transfer_id = given.transfer_id, failure_reason = null, detected_at = given.block_time,
        confirmed_at = given.confirmed_at, updated_at = now()
      from open_rows given
      where transactions.id = given.id
      returning transactions.id, transactions.owner, transactions.transfer_id, transactions.type, transactions.status
    ),
    -- no row has these ids, so that no conflict needs to be expected
    begun as (
      insert into transactions (
        id, owner, network, type, status, amount_units, counterparty, description, tx_hash, log_index, block_number,
        link_id, settled_by, candidates, payment_id, transfer_id, detected_at, confirmed_at, created_at
      )
      select
        history_id(unwritten.id), owner_key(user_id), ${network}, type, status, amount_units, counterparty,
        unwritten.description, tx_hash, log_index, block_number, link_id, settled_by, candidates, payment_id, transfer_id, block_time,
        confirmed_at, unwritten.created_at
      from unwritten
      join sides using (transfer_id, side)
      returning id, owner, transfer_id, type, status
    ),`;
}

/** SQL: the history row, of the same owner, that was opened for what `key` names. */
function selectOpenRows(tx: Tx, key: "payment_id" | "claim_id" | "operation_item_id") {
  return tx`
      select transactions.id, sides.*
      from sides
      cross join lateral (
        select id, owner
        from transactions
        where ${tx(key)} = sides.${tx(key)}
        limit 1
      ) transactions
      where transactions.owner = owner_key(sides.user_id)`;
}

function toRow(transfer: NewTransfer) {
  return {
    block_number: transfer.blockNumber,
    block_hash: toByteaText(transfer.blockHash),
    block_time: toTime(transfer.blockTimeS),
    tx_hash: toByteaText(transfer.txHash),
    log_index: transfer.logIndex,
    from_address: toByteaText(transfer.from),
    to_address: toByteaText(transfer.to),
    amount_units: transfer.amountUnits.toString(),
    authorization_nonce: transfer.authorizationNonce && toByteaText(transfer.authorizationNonce),
    confirmed_at: transfer.confirmedAtS === undefined ? undefined : toTime(transfer.confirmedAtS),
    link_id: transfer.linkId,
    pays: transfer.pays,
    settled_by: transfer.settledBy,
    candidates: transfer.candidates.length === 0 ? undefined : transfer.candidates,
    payment_id: transfer.paymentId,
    history_payment_id: transfer.historyPaymentId,
    history_claim_id: transfer.historyClaimId,
    operation_item_id: transfer.operationItemId?.toString(),
    amount: formatUnits(transfer.amountUnits),
  };
}

function toTime(seconds: number): string {
  return new Date(seconds * 1000).toISOString();
}
