/**
 * Reverts blocks that left the chain, in one transaction: their effects are undone, their rows are kept. The caller then computes
 * the status of their links with `recomputeLinkStatus` of db/links/recompute-link-status.ts.
 */
import type { NetworkId } from "../../core/domain/networks.ts";
import { lockLinks } from "../links/lock-links.ts";
import type { Tx } from "../postgres/client.ts";
import { forgetAccountChanges } from "../wallet-ops/account-changes.ts";
import { findLinksRefundedAbove } from "../wallet-ops/refunds.ts";
import { reopenOperationHistory, reopenOperations } from "../wallet-ops/reorganised-operations.ts";
import { noteOrphanedRefunds } from "../wallet-ops/reorganised-refunds.ts";
import { noteOrphanedAssignments } from "./reorganised-assignments.ts";
import { discardSumsAbove } from "./running-sums.ts";
import { STATEMENT_ROWS } from "./transfers.ts";

export type Undone = {
  transfers: number;
  linkIds: string[];
  paymentIds: string[];
  claimIds: string[];
  operationIds: string[];
};

/**
 * Reverts everything above `ancestor`: transfers and history rows become ORPHANED (rows that were open before are PENDING again),
 * relays BROADCAST, payments SIGNED with their relay or QUEUED without, claims OPEN with a new lease.
 */
export async function orphanBlocksAbove(
  tx: Tx,
  { network, ancestor, claimLeaseS }: { network: NetworkId; ancestor: number; claimLeaseS: number },
): Promise<Undone> {
  // a plan for any height would expect a third of each table above it
  await tx`set local plan_cache_mode = force_custom_plan`;
  const transfers = await tx<{ id: bigint; linkId: string | null }[]>`
    update transfers
    set status = 'ORPHANED', confirmed_at = null
    where network = ${network} and block_number > ${ancestor} and status <> 'ORPHANED'
    returning id, link_id`;
  await discardSumsAbove(tx, network, ancestor);
  await reopenRelays(tx, network, ancestor);
  await forgetAccountChanges(tx, { network, ancestor });
  const payments = await reopenPayments(tx, network, ancestor);
  const ids = transfers.map((row) => row.id.toString());
  const linkIds = [...transfers, ...payments].flatMap((row) => row.linkId ?? []);
  const created = await findLinksCreatedAbove(tx, network, ancestor);
  const refunded = await findLinksRefundedAbove(tx, { network, ancestor });
  // always in one order, after payments and before claims and operations, to avoid deadlocks
  const changed = [...linkIds, ...created, ...refunded];
  if (changed.length > 0) await lockLinks(tx, changed);
  await lowerCreationBlocks(tx, created, ancestor);
  if (ids.length > 0) await Promise.all([noteOrphanedRefunds(tx, ids), noteOrphanedAssignments(tx, ids)]);
  const claimIds = ids.length > 0 ? await reopenClaims(tx, ids, claimLeaseS) : [];
  const operationIds = await reopenOperations(tx, { network, ancestor });
  for (let start = 0; start < ids.length; start += STATEMENT_ROWS)
    await orphanHistory(tx, network, ids.slice(start, start + STATEMENT_ROWS));
  await reopenOperationHistory(tx, operationIds);
  const paymentIds = payments.map((row) => row.id);
  return { transfers: ids.length, linkIds, paymentIds, claimIds, operationIds };
}

async function findLinksCreatedAbove(tx: Tx, network: NetworkId, ancestor: number): Promise<string[]> {
  const links = await tx<{ id: string }[]>`
    select id
    from payment_links
    where created_block > ${ancestor} and network = ${network}`;
  return links.map(({ id }) => id);
}

/** Links created on reverted blocks: every block of the new branch comes after their creation. */
async function lowerCreationBlocks(tx: Tx, linkIds: readonly string[], ancestor: number): Promise<void> {
  if (linkIds.length === 0) return;
  await tx`
    update payment_links
    set created_block = ${ancestor}
    where id = any(${[...linkIds]}::text[])`;
}

/** The signed bytes can still be mined: the relay is pending again. */
async function reopenRelays(tx: Tx, network: NetworkId, ancestor: number): Promise<void> {
  await tx`
    update relays
    set
      state = 'BROADCAST', is_reopened = true, tx_hash = null, block_number = null, block_hash = null, succeeded = null,
      gas_used = null, fee_wei = null, mined_at = null
    where network = ${network} and state in ('MINED', 'CONFIRMED') and block_number > ${ancestor}`;
}

/**
 * Locks, in one order, the payments that the reverted blocks settled and those that were accepted on them: every block of the new branch comes
 * after these, although its number may be lower. Returns the settled ones. An insert that is still uncommitted is not seen: lowerAcceptedBlocks.
 */
async function lockPaymentsAbove(tx: Tx, network: NetworkId, ancestor: number): Promise<string[]> {
  const rows = await tx<{ id: string }[]>`
    with locked as (
      select id, accepted_block, coalesce(state in ('MINED', 'CONFIRMED') and block_number > ${ancestor}, false) as is_settled
      from payments
      where network = ${network}
        and (state in ('MINED', 'CONFIRMED') and block_number > ${ancestor} or accepted_block > ${ancestor})
      order by id
      for update
    ),
    lowered as (
      update payments
      set accepted_block = ${ancestor}
      from locked
      where payments.id = locked.id and locked.accepted_block > ${ancestor}
    )
    select id
    from locked
    where is_settled`;
  return rows.map(({ id }) => id);
}

/**
 * Payments whose insert was uncommitted when the blocks above `number`, the cursor, were reverted. Call while the cursor is held and the new branch
 * is lower than those were: what was accepted above the cursor was accepted on them.
 */
export async function lowerAcceptedBlocks(
  tx: Tx,
  { network, number }: { network: NetworkId; number: number },
): Promise<void> {
  await tx`set local plan_cache_mode = force_custom_plan`;
  await tx`
    with locked as (
      select id
      from payments
      where network = ${network} and accepted_block > ${number}
      order by id
      for update
    )
    update payments
    set accepted_block = ${number}
    from locked
    where payments.id = locked.id`;
}

async function reopenPayments(
  tx: Tx,
  network: NetworkId,
  ancestor: number,
): Promise<{ id: string; linkId: string }[]> {
  const ids = await lockPaymentsAbove(tx, network, ancestor);
  if (ids.length === 0) return [];
  return tx<{ id: string; linkId: string }[]>`
    with affected as (
      select payment.id, relay.id as relay_id
      from payments payment
      left join relays relay on relay.id = payment.relay_id and relay.state in ('SIGNED', 'BROADCAST')
      where payment.id = any(${ids}::text[])
    )
    update payments
    set
      state = case when affected.relay_id is null then 'QUEUED' else 'SIGNED' end,
      relay_id = affected.relay_id, tx_hash = null, log_index = null, block_number = null, refusals = 0, unavailable_since = null,
      next_try_at = now(), updated_at = now()
    from affected
    where payments.id = affected.id
    returning payments.id, payments.link_id`;
}

async function reopenClaims(tx: Tx, transferIds: readonly string[], leaseS: number): Promise<string[]> {
  const rows = await tx<{ id: string }[]>`
    update claims
    set state = 'OPEN', lease_until = now() + make_interval(secs => ${leaseS}::float8), updated_at = now()
    from transfers
    where transfers.id = any(${[...transferIds]}::text[]::bigint[])
      and claims.link_id = transfers.link_id
      and claims.tx_hash = hex_of(transfers.tx_hash)
      and claims.client_address = hex_of(transfers.from_address)
      and claims.state = 'MATCHED'
    returning claims.id`;
  return rows.map((row) => row.id);
}

/**
 * Rows of a payment, an open claim or a send, which await their transfer again, become PENDING. Others become ORPHANED: rows derived from the
 * log alone, and rows opened for a claim that the merchant's decision about the transfer has ended. All are detached from the transfer: if its
 * block comes back, another row may have been opened for it in between.
 */
async function orphanHistory(tx: Tx, network: NetworkId, transferIds: readonly string[]): Promise<void> {
  await tx`
    with reopened as (
      update transactions
      set
        ${withoutTransfer(tx)}, updated_at = now()
      where transfer_id = any(${[...transferIds]}::text[]::bigint[])
        and ${isAwaited(tx)}
      returning id, user_of(owner) as user_id, type
    ),
    orphaned as (
      update transactions
      set
        status = 'ORPHANED', confirmed_at = null, payment_id = null, claim_id = null, operation_item_id = null,
        transfer_id = null,
        updated_at = now()
      where transfer_id = any(${[...transferIds]}::text[]::bigint[])
        and not ${isAwaited(tx)}
      returning id, user_of(owner) as user_id, type
    )
    insert into events (user_id, type, subject_id, data)
    select user_id, 'transaction.orphaned', id, jsonb_build_object('type', type, 'network', ${network}::text)
    from (select * from reopened union all select * from orphaned) undone
    order by id`;
}

/** SQL: the API opened the row for a payment, claim or send that awaits a transfer. The caller has already reopened claims. */
function isAwaited(tx: Tx) {
  return tx`(
    id !~ '^txn_[0-9a-f]{32}$'
    and (
      payment_id is not null
      or operation_item_id is not null
      or exists (select from claims where claims.id = claim_id and claims.state = 'OPEN')
    )
  )`;
}

/** SQL: what makes a row of the history again what it was before its transfer was seen. */
export function withoutTransfer(tx: Tx) {
  return tx`
    type = case when operation_item_id is null then 'PAYMENT_LINK' else type end,
    status = 'PENDING', log_index = null, block_number = null, transfer_id = null,
    amount_units = case
      when operation_item_id is null
        then coalesce((select amount_units from payment_links link where link.id = link_id), amount_units)
      else amount_units
    end,
    tx_hash = (select bytes_of(claim.tx_hash) from claims claim where claim.id = claim_id), settled_by = null,
    candidates = null, detected_at = created_at, confirmed_at = null`;
}
