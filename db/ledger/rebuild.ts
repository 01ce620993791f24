/**
 * Deletes everything derived from the chain and derives it again in one transaction, then reports the differences. Kept are orphaned
 * rows (the chain no longer has them), relays (they are the worker's) and facilitated payments (blocks that touch no wallet are not
 * read again).
 */

import type { NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";
import { reopenOperationHistory, reopenOperations } from "../wallet-ops/reorganised-operations.ts";
import { withoutTransfer } from "./orphan-blocks.ts";

/**
 * Columns that a rebuild must reproduce, and timestamps of writing and reporting, which are restored when nothing else changed: the
 * block that confirmed a transfer may have been replaced afterwards by one of another time.
 */
const TABLES = {
  transactions: {
    key: "id",
    same: "owner, type, status, amount_units, counterparty, description, tx_hash, log_index, block_number, link_id, payment_id, claim_id, failure_reason, detected_at, settled_by, candidates, operation_item_id, operation_id",
    written: ["confirmed_at", "created_at", "updated_at"],
  },
  payment_links: {
    key: "id",
    same: "status, exception, paid_at, paid_units, settled_by",
    written: ["updated_at"],
  },
  payments: { key: "id", same: "state, reason, tx_hash, log_index, block_number", written: ["updated_at"] },
  wallet_operations: {
    key: "id",
    same: "state, reason, tx_hash, log_index, block_number, succeeded, gas_used",
    written: ["confirmed_at", "updated_at", "is_extra"],
  },
  claims: { key: "id", same: "state, reason", written: ["updated_at"] },
  transfers: {
    key: "hex_of(block_hash) || ':' || log_index",
    same: "block_number, block_time, tx_hash, from_address, to_address, amount_units, authorization_nonce, status, link_id, pays, payment_id, settled_by, candidates",
    written: ["confirmed_at", "detected_at"],
  },
} as const;
type TableName = keyof typeof TABLES;
const TABLE_NAMES = Object.keys(TABLES) as TableName[];

export type RebuildDifference = { table: string; rows: number; examples: string[] };

/** Copies the current rows for `compareWithSnapshot`. Dropped when the transaction ends. */
export async function takeSnapshot(tx: Tx, network: NetworkId): Promise<void> {
  await tx`set local idle_in_transaction_session_timeout = 0`;
  await tx`set local statement_timeout = 0`;
  for (const table of TABLE_NAMES) {
    const { key, same, written } = TABLES[table];
    await tx.unsafe(
      `create temporary table before_${table} on commit drop as
       select ${key} as key, md5(row(${same})::text) as sum, ${written.join(", ")}
       from ${table}
       where network = '${network}'`,
    );
    await tx.unsafe(`create unique index on before_${table} (key)`);
  }
}

/**
 * SQL: a row that can be rebuilt from its transfer alone. This includes a row opened for a claim once the merchant has decided about the
 * transfer, which ends the claim.
 */
function isRebuiltFromTransfer(tx: Tx) {
  return tx`(
    status in ('DETECTED', 'CONFIRMED')
    and payment_id is null
    and (id ~ '^txn_[0-9a-f]{32}$' or claim_id is null and operation_item_id is null)
  )`;
}

/** Remembers, until the transaction ends, the ids that are not derived from the row's log. */
export async function keepRowIds(tx: Tx, network: NetworkId): Promise<void> {
  await tx`
    create temporary table past_ids on commit drop as
    select id, ${idOfLog(tx)} as log_id
    from transactions
    where network = ${network} and ${isRebuiltFromTransfer(tx)} and id !~ '^txn_[0-9a-f]{32}$'`;
}

/** Restores these ids on the rebuilt rows, because users and their programs have stored them. */
export async function restoreRowIds(tx: Tx): Promise<void> {
  await tx`
    update transactions
    set id = past_ids.id
    from past_ids
    where transactions.id = past_ids.log_id`;
}

/** SQL: the id that `storeTransfers` derives from a row's log. */
function idOfLog(tx: Tx) {
  return tx`
    'txn_' || md5(concat_ws(
      ':', user_of(owner), network, hex_of(tx_hash), log_index, case when type = 'SEND' then 'OUT' else 'IN' end
    ))`;
}

/**
 * The newest block with something CONFIRMED, -1 without any. What stands at or below it was confirmed, and stays so: a reorganisation may have
 * left fewer blocks above it, and more confirmations may be asked for since. Call before `dropChainRows`.
 */
export async function findConfirmedBlock(tx: Tx, network: NetworkId): Promise<number> {
  const [row] = await tx<{ number: bigint | null }[]>`
    select max(block_number) as number
    from (
      select max(block_number) as block_number from transfers where network = ${network} and status = 'CONFIRMED'
      union all
      select max(block_number) from payments where network = ${network} and state = 'CONFIRMED'
      union all
      select max(block_number) from wallet_operations where network = ${network} and state in ('CONFIRMED', 'FAILED')
    ) confirmed`;
  return Number(row?.number ?? -1);
}

/** Deletes everything derived from canonical blocks. Returns the links whose state must be computed again. */
export async function dropChainRows(tx: Tx, network: NetworkId): Promise<string[]> {
  await tx`
    delete from transactions
    where network = ${network} and ${isRebuiltFromTransfer(tx)}`;
  await tx`
    update transactions
    set ${withoutTransfer(tx)}
    where network = ${network} and status in ('DETECTED', 'CONFIRMED') and transfer_id is not null`;
  await tx`
    with gone as (
      delete from transfers
      where network = ${network} and status <> 'ORPHANED'
      returning id
    )
    delete from transactions
    using gone
    where transactions.transfer_id = gone.id`;
  await reopenOperationHistory(tx, await reopenOperations(tx, { network, ancestor: -1 }));
  await tx`
    update wallets
    set
      booked_units = 0, booked_number = -1, booked_version = booked_version + 1, recount_units = null,
      recount_number = null
    where network = ${network}`;
  await tx`
    update payments
    set
      state = case when relay_id is null then 'QUEUED' else 'SIGNED' end, tx_hash = null, log_index = null,
      block_number = null
    where network = ${network} and state in ('MINED', 'CONFIRMED') and link_id is not null`;
  await tx`
    update claims
    set state = 'OPEN'
    where network = ${network} and state = 'MATCHED'`;
  const rows = await tx<{ id: string }[]>`
    select id
    from payment_links
    where network = ${network} and (status in ('PAID', 'PENDING') or exception <> 'NONE')`;
  return rows.map((row) => row.id);
}

/** Deletes the events of the rebuild itself: they repeat events that were reported when they happened. */
export async function dropOwnEvents(tx: Tx): Promise<void> {
  await tx`
    delete from events
    where epoch = (select write_event_epoch()) and written_by = (select pg_current_xact_id())`;
}

/** Compares with the snapshot and restores the timestamps of equal rows. An empty result means: identical. */
export async function compareWithSnapshot(tx: Tx, network: NetworkId): Promise<RebuildDifference[]> {
  const differences: RebuildDifference[] = [];
  for (const table of TABLE_NAMES) {
    const { key, same, written } = TABLES[table];
    await tx.unsafe(
      `update ${table}
       set ${written.map((column) => `${column} = before.${column}`).join(", ")}
       from before_${table} before
       where ${table}.network = '${network}'
         and before.key = ${key.replaceAll(/\b(id|block_hash|log_index)\b/g, `${table}.$1`)}
         and before.sum = md5(row(${qualify(same, table)})::text)
         and row(${qualify(written.join(", "), table)}) is distinct from row(${qualify(written.join(", "), "before")})`,
    );
    const rows = await tx.unsafe<{ key: string }[]>(
      `select coalesce(before.key, now.key) as key
       from before_${table} before
       full join (select ${key} as key, md5(row(${same})::text) as sum from ${table} where network = '${network}') now
         on now.key = before.key
       where now.sum is distinct from before.sum`,
    );
    if (rows.length > 0)
      differences.push({ table, rows: rows.length, examples: rows.slice(0, 5).map((row) => row.key) });
  }
  return differences;
}

function qualify(columns: string, table: string): string {
  return columns
    .split(", ")
    .map((column) => `${table}.${column}`)
    .join(", ");
}
