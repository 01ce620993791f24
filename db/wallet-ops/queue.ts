/** The queue of signed user operations: leases, the relay that carries each, and outcomes that do not depend on the chain. */
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import { SEND_WITHIN_S } from "../../core/domain/operation-lifetime.ts";
import type { OperationFailure, OperationState } from "../../core/domain/wallet-operation.ts";
import type { Tx } from "../postgres/client.ts";
import type { Wallet } from "../schema.ts";
import { isLive } from "./list-refundable.ts";
import { mayRunElsewhere } from "./retired-keys.ts";
import type { WalletOperation } from "./schema.ts";

/** Number of mined relays that did not execute an operation before it is given up. */
const MISSED_RELAYS_MAX = 3;

export type LeasedOperation = Pick<
  WalletOperation,
  | "id"
  | "userId"
  | "accountNonce"
  | "callData"
  | "callGas"
  | "verificationGas"
  | "userOpHash"
  | "refusals"
  | "signatureRefusedBlock"
  | "requestId"
> &
  Pick<Wallet, "address" | "factory" | "owners" | "saltNonce"> & {
    signature: Hex;
    /** Units as decimal text. */
    items: { to: Hex; units: string }[];
    /** Owner changes that wait for the account's deployment, to be run before this operation. */
    before: WaitingOperation[];
  };

/** Numbers as decimal text. */
export type WaitingOperation = {
  id: string;
  nonce: string;
  callData: Hex;
  callGas: string;
  verificationGas: string;
  signature: Hex;
};

/** Whether an operation is waiting to be sent, or to be executed by its relay. */
export async function hasUnfinishedOperations(tx: Tx, network: NetworkId): Promise<boolean> {
  const [row] = await tx<{ isUnfinished: boolean }[]>`
    select exists (
      select from wallet_operations
      where network = ${network} and state in ('QUEUED', 'SIGNED', 'BROADCAST')
    ) as is_unfinished`;
  return row?.isUnfinished ?? true;
}

/**
 * Leases due operations for `leaseMs`, oldest first. Owner changes for every network are not due while the account is not deployed: they
 * come with its first other operation, and however long that takes, the networks keep the same owners. Nor is a refund whose
 * payment was reorganised away or changed (`isHeldRefund`), until the payment is back.
 */
export async function leaseQueuedOperations(
  tx: Tx,
  network: NetworkId,
  { limit, leaseMs }: { limit: number; leaseMs: number },
): Promise<LeasedOperation[]> {
  return tx<LeasedOperation[]>`
    with leased as (
      update wallet_operations
      set next_try_at = now() + make_interval(secs => ${leaseMs / 1_000})
      where id = any(array(
        select id
        from wallet_operations
        where network = ${network}
          and state = 'QUEUED'
          and next_try_at <= now()
          and (
            is_any_chain
            or relayed_at is not null
            or queued_at > now() - make_interval(secs => ${SEND_WITHIN_S}::int)
          )
          and (
            not is_any_chain
            or exists (select from wallets where wallets.id = wallet_id and wallets.deployed_at is not null)
          )
          and not ${isHeldRefund(tx)}
        order by next_try_at
        limit ${limit}
        for update skip locked
      ))
      returning
        id, user_id, wallet_id, account_nonce, call_data, call_gas, verification_gas, user_op_hash, refusals,
        signature_refused_block, request_id, signature, is_any_chain, queued_at
    )
    select
      op.id, op.user_id, op.account_nonce, op.call_data, op.call_gas, op.verification_gas, op.user_op_hash, op.refusals,
      op.signature_refused_block, op.request_id, op.signature, wallet.address, wallet.factory, wallet.owners, wallet.salt_nonce,
      (
        select coalesce(
          jsonb_agg(jsonb_build_object('to', item.to_address, 'units', item.amount_units::text) order by item.position),
          '[]'
        )
        from wallet_operation_items item
        where item.operation_id = op.id
      ) as items,
      case when op.is_any_chain or wallet.deployed_at is not null then '[]' else (
        select coalesce(
          jsonb_agg(
            jsonb_build_object(
              'id', waiting.id, 'nonce', waiting.account_nonce::text, 'callData', waiting.call_data,
              'callGas', waiting.call_gas::text, 'verificationGas', waiting.verification_gas::text,
              'signature', waiting.signature
            )
            order by waiting.account_nonce
          ),
          '[]'
        )
        from wallet_operations waiting
        where waiting.wallet_id = op.wallet_id and waiting.is_any_chain and waiting.state = 'QUEUED'
      ) end as before
    from leased op
    join wallets wallet on wallet.id = op.wallet_id
    order by op.queued_at, op.id`;
}

/** Releases leases; the operations are due again after `delayMs`. `areRefused`: the chain refused them this time. */
export async function returnOperations(
  tx: Tx,
  ids: readonly string[],
  { delayMs, areRefused = false }: { delayMs: number; areRefused?: boolean },
): Promise<void> {
  if (ids.length === 0) return;
  await tx`
    update wallet_operations
    set
      next_try_at = now() + make_interval(secs => ${delayMs / 1_000}),
      refusals = refusals + ${areRefused ? 1 : 0}
    where id = any(${[...ids]}::text[]) and state = 'QUEUED'`;
}

/** Binds operations to the relay that carries them. Returns those that were still queued and due; the caller rolls back when some are missing. */
export async function markOperationsSigned(
  tx: Tx,
  relayId: bigint,
  ids: readonly string[],
): Promise<string[]> {
  const rows = await tx<{ id: string }[]>`
    update wallet_operations
    set
      state = 'SIGNED', relay_id = ${relayId}, relayed_at = coalesce(relayed_at, now()), refusals = 0, updated_at = now()
    where id = any(${[...ids]}::text[]) and state = 'QUEUED' and not ${isHeldRefund(tx)}
    returning id`;
  return rows.map(({ id }) => id);
}

/**
 * SQL: a refund that was never sent, of a payment that is not (or not again) deep enough, or of which less is left than when it was signed: a
 * reorganisation may bring a payment back with another amount, and an earlier refund that had failed may move its money after all.
 */
function isHeldRefund(tx: Tx) {
  return tx`(
    relayed_at is null
    and exists (
      select from refunds refund
      where refund.id = wallet_operations.id
        and (
          refund.orphaned_transfer_id is not null
          or refund.amount_units > coalesce(
            (
              select max(amount_units)
              from transfers
              where transfers.tx_hash = bytes_of(refund.paid_tx_hash)
                and transfers.log_index = refund.paid_log_index
                and transfers.network = refund.network
                and transfers.status = 'CONFIRMED'
            ),
            0
          ) - coalesce(
            (
              select sum(other.amount_units)
              from refunds other
              join wallet_operations op on op.id = other.id
              where other.paid_tx_hash = refund.paid_tx_hash
                and other.paid_log_index = refund.paid_log_index
                and other.network = refund.network
                and other.id <> refund.id
                and ${isLive(tx)}
            ),
            0
          )
        )
    )
  )`;
}

/** The bytes of their relay may be public. */
export async function markOperationsBroadcast(tx: Tx, relayId: bigint): Promise<string[]> {
  const rows = await tx<{ id: string }[]>`
    update wallet_operations
    set state = 'BROADCAST', updated_at = now()
    where relay_id = ${relayId} and state = 'SIGNED'
    returning id`;
  return rows.map(({ id }) => id);
}

/**
 * QUEUED -> FAILED with its history rows and events, unless a former relay may still execute it; the signature is erased in the same
 * statement. That of an operation for every network is kept: nodes have seen it, and it stays valid where a further wallet is set up
 * (`hasRemovedOwner`). Returns those that failed.
 */
export async function failQueuedOperations(
  tx: Tx,
  failures: readonly { id: string; reason: OperationFailure }[],
): Promise<string[]> {
  if (failures.length === 0) return [];
  const rows = await tx<{ id: string }[]>`
    update wallet_operations op
    set
      state = 'FAILED', reason = given.reason, signature = case when op.is_any_chain then op.signature end,
      updated_at = now()
    from json_to_recordset(${JSON.stringify(failures)}::text::json) as given (id text, reason text)
    where op.id = given.id and op.state = 'QUEUED' and not ${mayRunElsewhere(tx)}
    returning op.id`;
  const ids = rows.map(({ id }) => id);
  await writeFailures(tx, ids);
  return ids;
}

/** Queued operations that were not sent in time -> FAILED (NOT_SENT). */
export async function failUnsentOperations(tx: Tx, network: NetworkId): Promise<string[]> {
  const rows = await tx<{ id: string }[]>`
    select id
    from wallet_operations
    where network = ${network}
      and state = 'QUEUED'
      and relayed_at is null
      and not is_any_chain
      and queued_at <= now() - make_interval(secs => ${SEND_WITHIN_S}::int)
      and next_try_at <= now()
    for update skip locked`;
  return failQueuedOperations(
    tx,
    rows.map(({ id }) => ({ id, reason: "NOT_SENT" })),
  );
}

/**
 * Operations whose relay was lost, or was mined and read by the indexer at `confirmations` blocks' depth without their event: queued
 * again, or FAILED (NOT_RUN) after the third such relay, once no former one may still execute them. A relay in a block that left the
 * chain is sent again and still carries them; where the ledger does not have its block, a node confirms it first (`confirmRelays`).
 */
export async function requeueUnrunOperations(
  tx: Tx,
  network: NetworkId,
  confirmations: number,
): Promise<{ requeued: string[]; failed: string[] }> {
  const rows = await tx<{ id: string; state: string }[]>`
    with unrun as (
      select op.id, relay.state <> 'LOST' as is_mined
      from wallet_operations op
      join relays relay on relay.id = op.relay_id
      join cursors on cursors.network = op.network
      where op.network = ${network}
        and op.state in ('SIGNED', 'BROADCAST')
        and (relay.state = 'LOST' or op.missed_relays + 1 < ${MISSED_RELAYS_MAX}::int or not ${mayRunElsewhere(tx)})
        and (
          relay.state = 'LOST'
          or relay.state in ('MINED', 'CONFIRMED') and relay.block_number <= cursors.number - ${confirmations}::int + 1
            and coalesce(
              (
                select blocks.hash = relay.block_hash
                from blocks
                where blocks.network = relay.network and blocks.number = relay.block_number
              ),
              relay.state = 'CONFIRMED'
            )
        )
      order by op.id
      for update of op
    )
    update wallet_operations op
    set
      state = case when unrun.is_mined and op.missed_relays + 1 >= ${MISSED_RELAYS_MAX}::int then 'FAILED' else 'QUEUED' end,
      reason = case when unrun.is_mined and op.missed_relays + 1 >= ${MISSED_RELAYS_MAX}::int then 'NOT_RUN' end,
      missed_relays = op.missed_relays + case when unrun.is_mined then 1 else 0 end,
      relay_id = null, next_try_at = now(), updated_at = now()
    from unrun
    where op.id = unrun.id
    returning op.id, op.state`;
  const failed = rows.filter(({ state }) => state === "FAILED").map(({ id }) => id);
  await writeFailures(tx, failed);
  return { requeued: rows.filter(({ state }) => state === "QUEUED").map(({ id }) => id), failed };
}

/** Writes history rows and events of operations that just FAILED. */
export async function writeFailures(tx: Tx, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  await tx`
    with ended as (
      select id, user_id, kind, reason, network
      from wallet_operations
      where id = any(${[...ids]}::text[])
    ),
    history as (
      update transactions
      set status = 'FAILED', failure_reason = ended.reason, updated_at = now()
      from ended
      where transactions.operation_id = ended.id and transactions.status = 'PENDING'
      returning transactions.id, user_of(transactions.owner) as user_id, ended.reason
    )
    insert into events (user_id, type, subject_id, data)
    select user_id, type, id, jsonb_build_object('reason', reason) || money
    from (
      select user_id, 'transaction.failed' as type, id, reason, 2 as place, '{}'::jsonb as money
      from history
      union all
      select
        user_id, case kind
          when 'REFUND' then 'refund.failed'
          when 'OWNERS' then 'wallet.owner_change_failed'
          else 'wallet.send_failed'
        end, id, reason, 1, case kind
          when 'OWNERS' then jsonb_build_object('network', network)
          else jsonb_build_object('network', network) || ${moneyOf(tx, "ended")}
        end
      from ended
    ) step
    order by place, id`;
}

/** For an event's data: amount and recipients of an operation, and the link of a refund. */
export function moneyOf(tx: Tx, table: "ended" | "moved") {
  const id = tx`${tx(table)}.id`;
  return tx`(
    select jsonb_build_object(
      'amount', to_char(coalesce(sum(item.amount_units), 0) / 1000000.0, 'FM999999999999990.000000'),
      'recipients', count(*),
      'linkId', (select link_id from refunds where refunds.id = ${id})
    )
    from wallet_operation_items item
    where item.operation_id = ${id} and not item.is_fee
  )`;
}

export type WaitingOperations = { network: NetworkId; state: OperationState; count: number; oldestS: number };

/** Operations not mined yet, by network and state. */
export async function countWaitingOperations(tx: Tx): Promise<WaitingOperations[]> {
  return tx<WaitingOperations[]>`
    select
      network, state, count(*)::int as count, extract(epoch from now() - min(queued_at))::float8 as oldest_s
    from wallet_operations
    where state in ('QUEUED', 'SIGNED', 'BROADCAST')
    group by network, state`;
}
