/** Refunds requested by an operator or a program. They reserve nothing: an owner of the wallet prepares or cancels them. */
import { hashOf } from "../http/idempotency.ts";
import type { Tx } from "../postgres/client.ts";
import type { NewRefund } from "./refunds.ts";

export type NewRefundRequest = NewRefund & {
  /** Id of a user or an API key. */
  requestedBy: string;
  idempotencyKey: string | undefined;
  /** What must be equal for two requests with the same key. */
  request: unknown;
};

/** False when a request with this Idempotency-Key exists. */
export async function insertRefundRequest(tx: Tx, refund: NewRefundRequest): Promise<boolean> {
  const key = refund.idempotencyKey ?? null;
  const rows = await tx`
    insert into refunds (
      id, user_id, link_id, network, paid_tx_hash, paid_log_index, to_address, to_source, amount_units, reason,
      requested_by, request_key, request_hash
    )
    values (
      ${refund.id}, ${refund.userId}, ${refund.linkId}, ${refund.network}, ${refund.paidTxHash}, ${refund.paidLogIndex},
      ${refund.toAddress}, ${refund.toSource}, ${refund.amountUnits}, ${refund.reason}, ${refund.requestedBy}, ${key},
      ${key === null ? null : hashOf(refund.request)}
    )
    on conflict (user_id, request_key) where request_key is not null and cancelled_at is null do nothing
    returning id`;
  return rows.length === 1;
}

/** The request that an Idempotency-Key belongs to, and whether it was made by the same request. */
export async function findRequestByKey(
  tx: Tx,
  { userId, key, request }: { userId: string; key: string; request: unknown },
): Promise<{ id: string; isSameRequest: boolean } | undefined> {
  const [row] = await tx<{ id: string; requestHash: Uint8Array }[]>`
    select id, request_hash
    from refunds
    where user_id = ${userId} and request_key = ${key} and cancelled_at is null`;
  return row && { id: row.id, isSameRequest: Buffer.from(row.requestHash).equals(hashOf(request)) };
}

/** Requests of a link that are neither prepared nor cancelled. */
export async function countOpenRequests(tx: Tx, linkId: string): Promise<number> {
  const [row] = await tx<{ count: number }[]>`
    select count(*)::int as count
    from refunds refund
    where refund.link_id = ${linkId}
      and refund.requested_by is not null
      and refund.cancelled_at is null
      and not exists (select from wallet_operations op where op.id = refund.id)`;
  return row?.count ?? 0;
}

/** Serialises preparing and cancelling a refund. False when it was cancelled. */
export async function lockRefund(tx: Tx, id: string): Promise<boolean> {
  const [row] = await tx<{ isCancelled: boolean }[]>`
    select cancelled_at is not null as is_cancelled
    from refunds
    where id = ${id}
    for no key update`;
  return row?.isCancelled === false;
}

/** Cancels a request that no owner is signing or has signed; call after `lockRefund`. */
export async function cancelRequest(
  tx: Tx,
  { id, userId }: { id: string; userId: string },
): Promise<boolean> {
  const rows = await tx`
    update refunds refund
    set cancelled_at = now()
    where refund.id = ${id}
      and refund.user_id = ${userId}
      and refund.requested_by is not null
      and refund.cancelled_at is null
      and not exists (
        select from wallet_operations op
        where op.id = refund.id
          and op.state <> 'EXPIRED'
          and not (op.state = 'AWAITING_SIGNATURE' and op.expires_at <= now())
      )
    returning refund.id`;
  return rows.length === 1;
}

/** For a request whose operation was cancelled: releases its Idempotency-Key. False for a refund that was not requested. */
export async function markCancelled(tx: Tx, id: string): Promise<boolean> {
  const rows = await tx`
    update refunds
    set cancelled_at = now()
    where id = ${id} and requested_by is not null and cancelled_at is null
    returning id`;
  return rows.length === 1;
}
