/** Confirms transfers that are deep enough: with N confirmations they, their history and their payments become CONFIRMED. */
import type { NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";
import { STATEMENT_ROWS } from "./transfers.ts";

export type ConfirmedTransfers = { linkIds: string[]; paymentIds: string[] };

type Depth = { network: NetworkId; depthNumber: number };

/** SQL: true when `confirmTransfers` would confirm a transfer. */
export function hasDetectedAtDepth(tx: Tx, depth: Depth) {
  return tx`exists (select ${detectedAtDepth(tx, depth)})`;
}

/** SQL: the links whose transfers `confirmTransfers` will confirm. */
export function linksToConfirm(tx: Tx, depth: Depth) {
  return tx`select distinct link_id ${detectedAtDepth(tx, depth)} and link_id is not null`;
}

function detectedAtDepth(tx: Tx, { network, depthNumber }: Depth) {
  return tx`
    from transfers
    where network = ${network} and status = 'DETECTED' and block_number <= ${depthNumber}`;
}

/** DETECTED -> CONFIRMED for everything at or below `depthNumber`, with its history rows, payments and events. */
export async function confirmTransfers(tx: Tx, deep: Deep): Promise<ConfirmedTransfers> {
  const confirmed: ConfirmedTransfers = { linkIds: [], paymentIds: [] };
  for (let count = STATEMENT_ROWS; count === STATEMENT_ROWS; ) {
    const rows = await confirmPart(tx, deep);
    for (const { linkId, paymentId } of rows) {
      if (linkId) confirmed.linkIds.push(linkId);
      if (paymentId) confirmed.paymentIds.push(paymentId);
    }
    count = rows.length;
  }
  return confirmed;
}

type Deep = Depth & { confirmations: number };

/**
 * SQL: the time of the block with which a transfer has enough confirmations. Blocks without our records are skipped without being stored; if
 * that block was, because the transfer was booked only afterwards, it is the time of the next stored one.
 */
function timeOfDepth(tx: Tx, transfer: "transfers" | "detected", confirmations: number) {
  return tx`
    select block_time
    from blocks
    where blocks.network = ${tx(transfer)}.network and blocks.number >= ${tx(transfer)}.block_number + ${confirmations - 1}::int
    order by blocks.number
    limit 1`;
}

/** At most STATEMENT_ROWS of them. */
function confirmPart(
  tx: Tx,
  { network, depthNumber, confirmations }: Deep,
): Promise<{ linkId: string | null; paymentId: string | null }[]> {
  return tx<{ linkId: string | null; paymentId: string | null }[]>`
    with deep as (
      update transfers
      set status = 'CONFIRMED', confirmed_at = (${timeOfDepth(tx, "transfers", confirmations)})
      where transfers.id = any(array(
          select detected.id
          from transfers detected
          where detected.network = ${network}
            and detected.status = 'DETECTED'
            and detected.block_number <= ${depthNumber}
            and exists (${timeOfDepth(tx, "detected", confirmations)})
          limit ${STATEMENT_ROWS}
        ))
        and transfers.network = ${network}
        and transfers.status = 'DETECTED'
        and transfers.block_number <= ${depthNumber}
      returning transfers.id, transfers.confirmed_at, transfers.link_id, transfers.payment_id
    ),
    history as (
      update transactions
      set status = 'CONFIRMED', confirmed_at = deep.confirmed_at, updated_at = now()
      from deep
      where transactions.transfer_id = deep.id and transactions.status = 'DETECTED'
      returning
        transactions.id, user_of(transactions.owner) as user_id, transactions.type, transactions.tx_hash,
        transactions.block_number
    ),
    payment as (
      update payments
      set state = 'CONFIRMED', updated_at = now()
      from deep
      where payments.id = deep.payment_id and payments.state = 'MINED'
    ),
    event as (
      insert into events (user_id, type, subject_id, data)
      select
        user_id, 'transaction.confirmed', id,
        jsonb_build_object('type', type, 'txHash', hex_of(tx_hash), 'blockNumber', block_number, 'network', ${network}::text)
      from history
    )
    select link_id, payment_id
    from deep`;
}
