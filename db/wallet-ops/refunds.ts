/**
 * Refunds of links: inserted under the link's lock, so that two of them cannot exceed what was received (the limit: core/domain/refund.ts),
 * listed, and added to the link's refunded amount once CONFIRMED.
 */

import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import type { Refund, RefundSource, RefundState } from "../../core/domain/refund.ts";
import { queueDocuments } from "../jobs/queue-documents.ts";
import type { Tx } from "../postgres/client.ts";

/** Serialises everything that reserves or moves a link's money. */
export async function lockForRefunds(tx: Tx, linkId: string): Promise<void> {
  await tx`
    select
    from payment_links
    where id = ${linkId}
    for no key update`;
}

export type NewRefund = Pick<
  Refund,
  "id" | "userId" | "linkId" | "network" | "paidTxHash" | "paidLogIndex" | "toAddress" | "amountUnits"
> & { toSource: RefundSource; reason: string | null };

export async function insertRefund(tx: Tx, refund: NewRefund): Promise<void> {
  await tx`
    insert into refunds (
      id, user_id, link_id, network, paid_tx_hash, paid_log_index, to_address, to_source, amount_units, reason
    )
    values (
      ${refund.id}, ${refund.userId}, ${refund.linkId}, ${refund.network}, ${refund.paidTxHash}, ${refund.paidLogIndex},
      ${refund.toAddress}, ${refund.toSource}, ${refund.amountUnits}, ${refund.reason}
    )`;
}

export type RefundView = Refund & {
  status: RefundState;
  /** Null for a request that is not prepared yet. */
  userOpHash: Hex | null;
  /** The id of the API key or user that requested it. */
  requesterName: string | null;
};

export async function findRefund(
  tx: Tx,
  { id, userId }: { id: string; userId: string },
): Promise<RefundView | undefined> {
  const [row] = await tx<RefundView[]>`
    ${selectRefunds(tx)}
    where refund.id = ${id} and refund.user_id = ${userId}`;
  if (row) return row;
  const [restored] = await tx<RefundView[]>`
    ${selectRefunds(tx)}
    where refund.user_id = ${userId}
      and refund.id = (
        select id
        from wallet_operations
        where restored_at is not null and right(id, 32) = right(${id}, 32)
      )`;
  return restored;
}

export type RefundFilter = { userId: string; linkId?: string; status?: RefundState | undefined };

/** Newest first; `before` is the last id of the previous page. */
export async function listRefunds(
  tx: Tx,
  { userId, linkId, status }: RefundFilter,
  { before, limit }: { before?: string | undefined; limit: number },
): Promise<RefundView[]> {
  return tx<RefundView[]>`
    ${selectRefunds(tx)}
    where refund.user_id = ${userId}
      ${linkId === undefined ? tx`` : tx`and refund.link_id = ${linkId}`}
      ${before === undefined ? tx`` : tx`and refund.id < ${before}`}
      ${status === undefined ? tx`` : tx`and ${shownState(tx)} = ${status}`}
    order by refund.id desc
    limit ${limit}`;
}

function selectRefunds(tx: Tx) {
  return tx`
    select
      refund.id, refund.user_id, refund.link_id, refund.network, refund.paid_tx_hash, refund.paid_log_index, refund.to_address,
      refund.to_source, refund.amount_units, refund.reason, refund.requested_by, refund.cancelled_at, refund.created_at,
      ${shownState(tx)} as status, op.user_op_hash,
      coalesce(
        (select name from api_keys where api_keys.id = refund.requested_by),
        (select coalesce(display_name, email) from users where users.id = refund.requested_by)
      ) as requester_name
    from refunds refund
    left join wallet_operations op on op.id = refund.id`;
}

/** Needs `refund` and `op`. A request that was prepared but not signed in time is waiting for its owner again. */
function shownState(tx: Tx) {
  return tx`case
    when op.id is not null and not (
      op.state = 'EXPIRED' or op.state = 'AWAITING_SIGNATURE' and op.expires_at <= now()
    ) then op.state
    when refund.cancelled_at is not null then 'CANCELLED'
    when refund.requested_by is not null then 'REQUESTED'
    else 'EXPIRED'
  end`;
}

/** SQL: the links of refunds that will be confirmed at `depthNumber`, or that belong to these operations. */
export function linksRefundedBy(
  tx: Tx,
  {
    network,
    depthNumber,
    userOpHashes,
  }: { network: NetworkId; depthNumber: number; userOpHashes: readonly Hex[] },
) {
  return tx`
    select distinct link_id
    from refunds
    where id = any(array(
      select id
      from wallet_operations
      where network = ${network} and state = 'MINED' and block_number <= ${depthNumber}
      union all
      select id
      from wallet_operations
      where network = ${network} and user_op_hash = any(${[...userOpHashes]}::text[])
    ))`;
}

/** The same, for a caller that asks for nothing else. */
export async function findLinksRefundedBy(
  tx: Tx,
  move: Parameters<typeof linksRefundedBy>[1],
): Promise<string[]> {
  const rows = await tx<{ linkId: string }[]>`${linksRefundedBy(tx, move)}`;
  return rows.map(({ linkId }) => linkId);
}

/** The links of refunds that were executed above this height. */
export async function findLinksRefundedAbove(
  tx: Tx,
  { network, ancestor }: { network: NetworkId; ancestor: number },
): Promise<string[]> {
  const rows = await tx<{ linkId: string }[]>`
    select distinct link_id
    from refunds
    where id = any(array(
      select id
      from wallet_operations
      where network = ${network} and block_number > ${ancestor}
    ))`;
  return rows.map(({ linkId }) => linkId);
}

/**
 * Whether the ledger lacks an operation that was executed before this refund's: of the nonce before its own, once it holds any of the
 * wallet, or of the nonce of another refund of the same money. Whatever a node said of its head, these nonces are spent.
 */
export async function isBehindNonce(tx: Tx, refundId: string): Promise<boolean> {
  const rows = await tx`
    select
    from refunds refund
    join wallet_operations op on op.id = refund.id
    join wallets wallet on wallet.id = op.wallet_id
    where refund.id = ${refundId}
      and exists (
        select
        from (
          select op.account_nonce - 1 as nonce
          where exists (
            select from wallet_operation_events known
            where known.network = op.network and known.sender = hex_of(wallet.address) and known.nonce < op.account_nonce
          )
          union all
          select earlier.account_nonce
          from refunds other
          join wallet_operations earlier on earlier.id = other.id
          where (other.link_id = refund.link_id or other.paid_tx_hash = refund.paid_tx_hash)
            and earlier.wallet_id = op.wallet_id
            and earlier.account_nonce < op.account_nonce
        ) spent
        where not exists (
          select from wallet_operation_events event
          where event.network = op.network and event.sender = hex_of(wallet.address) and event.nonce = spent.nonce
        )
      )`;
  return rows.length > 0;
}

/** Recomputes the refunded amounts of the links of these operations. Returns the links. */
export async function refreshRefundedUnits(tx: Tx, operationIds: readonly string[]): Promise<string[]> {
  if (operationIds.length === 0) return [];
  const rows = await tx<{ id: string }[]>`
    with concerned as (
      select link.id
      from payment_links link
      where link.id in (select link_id from refunds where id = any(${[...operationIds]}::text[]))
      order by link.id
      for no key update
    )
    update payment_links link
    set
      refunded_units = (
        select coalesce(sum(refund.amount_units), 0)
        from refunds refund
        join wallet_operations op on op.id = refund.id
        where refund.link_id = link.id and op.state = 'CONFIRMED'
      ),
      updated_at = now()
    from concerned
    where link.id = concerned.id
    returning link.id`;
  const linkIds = rows.map(({ id }) => id);
  await queueDocuments(tx, linkIds);
  return linkIds;
}

/** Queues the documents of refunds that were CONFIRMED before their transfers were read. */
export async function queueCreditNotes(
  tx: Tx,
  network: NetworkId,
  userOpHashes: readonly Hex[],
): Promise<void> {
  if (userOpHashes.length === 0) return;
  const rows = await tx<{ linkId: string }[]>`
    select distinct refund.link_id
    from wallet_operations op
    join refunds refund on refund.id = op.id
    where op.network = ${network} and op.user_op_hash = any(${[...userOpHashes]}::text[]) and op.state = 'CONFIRMED'`;
  await queueDocuments(
    tx,
    rows.map(({ linkId }) => linkId),
  );
}
