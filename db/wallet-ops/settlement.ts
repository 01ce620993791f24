/** User operations as the chain settles them: the EntryPoint's events, what they mean for the rows, and undoing them. */
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import type { OperationFailure } from "../../core/domain/wallet-operation.ts";
import type { Tx } from "../postgres/client.ts";
import { notify } from "../postgres/notifications.ts";
import { moneyOf, writeFailures } from "./queue.ts";
import { refreshRefundedUnits } from "./refunds.ts";

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

/** Stores the events, once each whatever is read again. */
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

/** Operations of ours with these hashes, locked in one order until the transaction ends. */
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
 * Whatever an operation was, its event makes it MINED: also one that was EXPIRED, CANCELLED or FAILED, for a signature that has left
 * the browser can be sent by anybody. Returns the operations that moved.
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
        reason = null, is_extra = op.is_extra or op.state in ('EXPIRED', 'CANCELLED', 'FAILED'), updated_at = now()
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
      select user_id, 'wallet.deployed', id, jsonb_build_object('network', network, 'address', address)
      from deployed
    )
    select id
    from settled
    order by id`;
  return rows.map(({ id }) => id);
}

/**
 * At `depthNumber` and below: MINED -> CONFIRMED, or FAILED when the calls failed; and what waits behind a nonce that another operation
 * has spent -> FAILED (NONCE_TAKEN). Returns the operations that ended.
 */
export async function concludeOperations(
  tx: Tx,
  { network, depthNumber }: { network: NetworkId; depthNumber: number },
): Promise<string[]> {
  const rows = await tx<{ id: string; state: string }[]>`
    with ended as (
      select op.id, op.succeeded, case
        when op.succeeded then null
        when op.state = 'MINED' then coalesce(
          (
            select failure
            from wallet_operation_events event
            where event.network = op.network and event.sender = wallet.address and event.nonce = op.account_nonce
              and event.user_op_hash = op.user_op_hash
            limit 1
          ),
          'REVERTED'
        )
        else 'NONCE_TAKEN'
      end as reason
      from wallet_operations op
      join wallets wallet on wallet.id = op.wallet_id
      where op.network = ${network}
        and op.state in ('QUEUED', 'SIGNED', 'BROADCAST', 'MINED')
        and (
          op.state = 'MINED' and op.block_number <= ${depthNumber}
          or op.state <> 'MINED' and exists (
            select from wallet_operation_events other
            where other.network = op.network
              and other.sender = wallet.address
              and other.nonce = op.account_nonce
              and other.user_op_hash <> op.user_op_hash
              and other.block_number <= ${depthNumber}
          )
        )
      order by op.id
      for update of op
    ),
    moved as (
      update wallet_operations op
      set
        state = case when ended.reason is null then 'CONFIRMED' else 'FAILED' end, reason = ended.reason,
        confirmed_at = case when ended.reason is null then now() end, updated_at = now()
      from ended
      where op.id = ended.id
      returning op.id, op.user_id, op.kind, op.state, op.tx_hash, op.network
    ),
    event as (
      insert into events (user_id, type, subject_id, data)
      select
        user_id, case kind when 'REFUND' then 'refund.confirmed' else 'wallet.send_confirmed' end, id,
        jsonb_build_object('txHash', tx_hash, 'network', network) || ${moneyOf(tx, "moved")}
      from moved
      -- an owner change has its event when its log is deep enough
      where state = 'CONFIRMED' and kind <> 'OWNERS'
      order by id
    )
    select id, state
    from moved`;
  await writeFailures(
    tx,
    rows.filter(({ state }) => state === "FAILED").map(({ id }) => id),
  );
  const linkIds = await refreshRefundedUnits(
    tx,
    rows.filter(({ state }) => state === "CONFIRMED").map(({ id }) => id),
  );
  await notify(tx, linkIds);
  return rows.map(({ id }) => id);
}

/**
 * Forgets the events above `ancestor`; the operations they settled are what they were before. One that was on its way waits again: its
 * relay's bytes go out once more, or it is queued. An end that was reported is withdrawn by an event.
 */
export async function reopenOperations(
  tx: Tx,
  { network, ancestor }: { network: NetworkId; ancestor: number },
): Promise<string[]> {
  await tx`
    delete from wallet_operation_events
    where network = ${network} and block_number > ${ancestor}`;
  const rows = await tx<{ id: string }[]>`
    with affected as (
      select
        op.id, op.prior_state, op.state in ('CONFIRMED', 'FAILED') as was_reported, relay.id as relay_id, op.prior_state in ('QUEUED', 'SIGNED', 'BROADCAST') as was_live,
        exists (
          select from wallet_operations other
          where other.wallet_id = op.wallet_id
            and other.id <> op.id
            and (
              other.state in ('QUEUED', 'SIGNED', 'BROADCAST', 'MINED')
              or other.block_number > ${ancestor} and other.id > op.id
            )
        ) as has_successor
      from wallet_operations op
      left join relays relay on relay.id = op.relay_id and relay.state <> 'LOST'
      where op.network = ${network} and op.block_number > ${ancestor}
      order by op.id
      for update of op
    ),
    reopened as (
      update wallet_operations op
      set
        state = case
          when not affected.was_live then affected.prior_state
          when affected.relay_id is null then 'QUEUED'
          else 'BROADCAST'
        end,
        reason = case when not affected.was_live then op.prior_reason end,
        relay_id = affected.relay_id,
        is_extra = op.void_of is not null or affected.has_successor,
        tx_hash = null, log_index = null, block_number = null, succeeded = null, gas_used = null, prior_state = null,
        prior_reason = null, confirmed_at = null, next_try_at = now(), updated_at = now()
      from affected
      where op.id = affected.id
      returning op.id, op.user_id, op.kind, op.network, op.state, affected.was_reported
    ),
    event as (
      insert into events (user_id, type, subject_id, data)
      select
        user_id, case kind when 'REFUND' then 'refund.reorged' else 'wallet.send_reorged' end, id,
        jsonb_build_object('network', network, 'status', state)
      from reopened
      where was_reported and kind <> 'OWNERS'
      order by id
    )
    select id
    from reopened`;
  const ids = rows.map(({ id }) => id);
  await refreshRefundedUnits(tx, ids);
  return ids;
}

/** The history rows of operations that were put back: what is on its way is PENDING, what had failed is FAILED again. */
export async function reopenOperationHistory(tx: Tx, operationIds: readonly string[]): Promise<void> {
  if (operationIds.length === 0) return;
  await tx`
    update transactions
    set
      status = case when op.state = 'FAILED' then 'FAILED' else 'PENDING' end, failure_reason = op.reason,
      updated_at = now()
    from wallet_operations op
    where op.id = any(${[...operationIds]}::text[])
      and transactions.operation_id = op.id
      and transactions.transfer_id is null
      and transactions.status in ('PENDING', 'FAILED')`;
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
