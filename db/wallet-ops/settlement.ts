/** Settlement of user operations: the EntryPoint's events and their effects on our rows. */
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import type { OperationFailure } from "../../core/domain/wallet-operation.ts";
import type { Tx } from "../postgres/client.ts";

export type OperationEvent = {
  blockNumber: number;
  blockHash: Hex;
  txHash: Hex;
  logIndex: number;
  userOpHash: Hex;
  sender: Hex;
  nonce: bigint;
  succeeded: boolean;
  gasUsed: bigint;
  /** Why its calls failed. */
  failure: OperationFailure | undefined;
};

/** Stores the events, each once even if read repeatedly. */
export async function recordOperationEvents(
  tx: Tx,
  network: NetworkId,
  events: readonly OperationEvent[],
): Promise<void> {
  if (events.length === 0) return;
  await tx`
    insert into wallet_operation_events (
      network, block_number, block_hash, tx_hash, log_index, user_op_hash, sender, nonce, succeeded, gas_used, failure
    )
    select
      ${network}, block_number, block_hash, tx_hash, log_index, user_op_hash, sender, nonce, succeeded, gas_used, failure
    from json_to_recordset(${toJson(events)}::text::json) as given (
      block_number bigint, block_hash text, tx_hash text, log_index int, user_op_hash text, sender text, nonce numeric,
      succeeded boolean, gas_used numeric, failure text
    )
    on conflict do nothing`;
}

export type SettlingOperation = {
  id: string;
  userOpHash: Hex;
  items: { id: bigint; to: Hex; amountUnits: bigint }[];
};

/** Our operations with these hashes, locked in a fixed order until the transaction ends. */
export async function loadOperations(
  tx: Tx,
  network: NetworkId,
  hashes: readonly Hex[],
): Promise<SettlingOperation[]> {
  if (hashes.length === 0) return [];
  const operations = await tx<{ id: string; userOpHash: Hex }[]>`
    select id, user_op_hash
    from wallet_operations
    where network = ${network} and user_op_hash = any(${[...hashes]}::text[])
    order by id
    for update`;
  if (operations.length === 0) return [];
  const items = await tx<{ id: bigint; operationId: string; to: Hex; amountUnits: bigint }[]>`
    select id, operation_id, to_address as to, amount_units
    from wallet_operation_items
    where operation_id = any(${operations.map(({ id }) => id)}::text[])
    order by operation_id, position`;
  const byOperation = Map.groupBy(items, ({ operationId }) => operationId);
  return operations.map((operation) => ({ ...operation, items: byOperation.get(operation.id) ?? [] }));
}

/**
 * Whatever an operation was, its event makes it MINED: also one that was EXPIRED, CANCELLED or FAILED, or was never confirmed here, for a
 * signature that has left the browser can be sent by anybody. Such a one is extra: the wallet may have a live operation beside it, and the
 * block is settled all the same. So it is when another operation has its Idempotency-Key meanwhile. Returns the operations that moved.
 */
export async function settleOperations(
  tx: Tx,
  network: NetworkId,
  events: readonly OperationEvent[],
): Promise<string[]> {
  if (events.length === 0) return [];
  const rows = await tx<{ id: string }[]>`
    with given as (
      select *
      from json_to_recordset(${toJson(events)}::text::json) as row (
        block_number bigint, tx_hash text, log_index int, user_op_hash text, succeeded boolean, gas_used numeric
      )
    ),
    settled as (
      update wallet_operations op
      set
        state = 'MINED', tx_hash = given.tx_hash, log_index = given.log_index, block_number = given.block_number,
        succeeded = given.succeeded, gas_used = given.gas_used, prior_state = op.state, prior_reason = op.reason,
        reason = null, is_extra = op.is_extra or op.state not in ('QUEUED', 'SIGNED', 'BROADCAST'),
        idempotency_key = case
          -- freed when it ended, and perhaps another one's since
          when op.state in ('EXPIRED', 'CANCELLED') and exists (
            select from wallet_operations other
            where other.user_id = op.user_id
              and other.kind = op.kind
              and other.idempotency_key = op.idempotency_key
              and other.id <> op.id
              and (
                other.state not in ('EXPIRED', 'CANCELLED')
                or other.id < op.id and other.user_op_hash in (select user_op_hash from given)
              )
          ) then null
          else op.idempotency_key
        end,
        updated_at = now()
      from given
      where op.network = ${network} and op.user_op_hash = given.user_op_hash and op.tx_hash is null
      returning op.id, op.wallet_id
    ),
    deployed as (
      update wallets
      set deployed_at = now()
      from settled
      where wallets.id = settled.wallet_id and wallets.deployed_at is null
      returning wallets.id, wallets.user_id, wallets.network, wallets.address
    ),
    event as (
      insert into events (user_id, type, subject_id, data)
      select user_id, 'wallet.deployed', id, jsonb_build_object('network', network, 'address', hex_of(address))
      from deployed
    )
    select id
    from settled
    order by id`;
  return rows.map(({ id }) => id);
}

function toJson(events: readonly OperationEvent[]): string {
  return JSON.stringify(
    events.map((event) => ({
      block_number: event.blockNumber,
      block_hash: event.blockHash,
      tx_hash: event.txHash,
      log_index: event.logIndex,
      user_op_hash: event.userOpHash,
      sender: event.sender,
      nonce: event.nonce.toString(),
      succeeded: event.succeeded,
      gas_used: event.gasUsed.toString(),
      failure: event.failure,
    })),
  );
}
