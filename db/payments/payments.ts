/** Payments: locking, reading and failing them. Only the indexer marks them settled. */
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import { hasUnappliedTransfer } from "../links/unapplied-transfers.ts";
import { unknownUntil } from "../links/unknown-outcomes.ts";
import type { Tx } from "../postgres/client.ts";
import type { Payment } from "../schema.ts";
import { idsByAuthorization } from "./ids-by-authorization.ts";

/** Locks these payments in a fixed order. Payments are locked before links everywhere. */
export async function lockPayments(tx: Tx, ids: readonly string[]): Promise<void> {
  await tx`
    select id
    from payments
    where id = any(${[...new Set(ids)]}::text[])
    order by id
    for update`;
}

/** SQL: whether none of these payments is stored on the network. */
export function isNoneStored(tx: Tx, network: NetworkId, ids: readonly string[]): ReturnType<Tx> {
  return tx`not exists (
    select from payments
    where id = any(${[...ids]}::text[]) and network = ${network}
  )`;
}

/**
 * Ends payments that cannot be settled: FAILED with a reason, links released (ACTIVE, or EXPIRED when they have expired; PENDING when an attributed
 * transfer is going to pay them), history rows FAILED. Only QUEUED payments can fail here: no signed bytes of ours exist that could
 * still be mined. A payment whose transfer is recorded without a link is left to the indexer.
 * `isOutcomeUnknown`: no node confirmed that the authorization is unused. Until when: `unknownUntil` of db/links/unknown-outcomes.ts.
 * `updatedAtMicros`: of the payment that was judged. One that has failed and was accepted again since then is unchanged.
 */
export async function failPayments(
  tx: Tx,
  failures: readonly {
    id: string;
    reason: string;
    message?: string | undefined;
    isOutcomeUnknown?: boolean | undefined;
    updatedAtMicros?: bigint | undefined;
  }[],
): Promise<{ id: string; linkId: string | null }[]> {
  if (failures.length === 0) return [];
  const rows = failures.map(({ id, reason, message, isOutcomeUnknown = false, updatedAtMicros }) => ({
    id,
    reason,
    message,
    is_outcome_unknown: isOutcomeUnknown,
    updated_at_micros: updatedAtMicros?.toString(),
  }));
  return tx<{ id: string; linkId: string | null }[]>`
    with given as (
      select *
      from json_to_recordset(${JSON.stringify(rows)}::text::json)
        as row (id text, reason text, message text, is_outcome_unknown boolean, updated_at_micros bigint)
    ),
    failed as (
      update payments
      set
        state = 'FAILED', reason = given.reason, reason_text = given.message, relay_id = null, updated_at = now(),
        doubt_since = case when given.is_outcome_unknown and link_id is not null then now() end,
        doubt_until = case
          when given.is_outcome_unknown and link_id is not null
          then ${unknownUntil(tx)}
        end
      from given
      where payments.id = given.id
        and payments.state = 'QUEUED'
        and (given.updated_at_micros is null or timestamp_micros(payments.updated_at) = given.updated_at_micros)
        and (
          payments.link_id is null
          or not exists (
            select from transfers own
            where own.network = payments.network
              and own.from_address = payments.payer
              and own.authorization_nonce = payments.nonce
              and own.to_address = payments.recipient
              and own.amount_units = payments.amount_units
              and own.link_id is null
              and own.status <> 'ORPHANED'
          )
        )
      returning payments.id, payments.link_id, payments.reason
    ),
    ended as (
      delete from payment_leases
      using failed
      where payment_leases.payment_id = failed.id
    ),
    released as (
      update payment_links
      set
        status = case
          when exists (
            select from claims
            where claims.link_id = payment_links.id and claims.state = 'OPEN' and claims.lease_until > now()
          ) then 'PENDING'
          when ${hasUnappliedTransfer(tx, { id: "payment_links.id", amountUnits: "payment_links.amount_units", payAmountUnits: "payment_links.pay_amount_units" })} then 'PENDING'
          when expires_at <= now() then 'EXPIRED'
          else 'ACTIVE'
        end,
        updated_at = now()
      from failed
      where payment_links.id = failed.link_id
        and payment_links.status = 'PENDING'
        and not exists (
          select from transfers
          where transfers.link_id = failed.link_id and transfers.pays and transfers.status <> 'ORPHANED'
        )
      returning
        payment_links.id, payment_links.user_id, payment_links.status, failed.id as payment_id, failed.reason
    ),
    history as (
      update transactions
      set status = 'FAILED', failure_reason = failed.reason, updated_at = now()
      from failed
      where transactions.payment_id = failed.id and transactions.status = 'PENDING'
      returning transactions.id, user_of(transactions.owner) as user_id, failed.reason
    ),
    link_event as (
      insert into events (user_id, type, subject_id, data)
      select
        user_id, case status when 'EXPIRED' then 'payment_link.expired' else 'payment_link.released' end, id,
        jsonb_build_object('paymentId', payment_id, 'reason', reason)
      from released
      where status <> 'PENDING'
    ),
    history_event as (
      insert into events (user_id, type, subject_id, data)
      select user_id, 'transaction.failed', id, jsonb_build_object('reason', reason)
      from history
    )
    select id, link_id from failed`;
}

/** What a waiting request reads. */
export type PaymentView = Pick<
  Payment,
  | "id"
  | "linkId"
  | "network"
  | "payer"
  | "nonce"
  | "recipient"
  | "amountUnits"
  | "state"
  | "reason"
  | "reasonText"
  | "logIndex"
  | "blockNumber"
> &
  Pick<Payment, "txHash" | "idempotencyKey" | "createdAt" | "updatedAt"> & {
    /** Hash of our newest attempt while the payment is not mined. */
    attemptHash: `0x${string}` | null;
  };

const VIEW_COLUMNS = `
  payments.id, payments.link_id, payments.network, payments.payer, payments.nonce, payments.recipient, payments.amount_units,
  case
    when payments.state = 'SIGNED' and exists (
      select from relays where relays.id = payments.relay_id and relays.state <> 'SIGNED' offset 0
    ) then 'BROADCAST'
    else payments.state
  end as state,
  payments.reason, payments.reason_text, payments.tx_hash, payments.log_index, payments.block_number,
  payments.idempotency_key, payments.created_at, payments.updated_at,
  (
    select attempt.tx_hash
    from relay_attempts attempt
    where attempt.relay_id = payments.relay_id
      and not attempt.is_noop
      and payments.id <> all(attempt.left_out)
    order by attempt.created_at desc
    limit 1
  ) as attempt_hash`;

export async function findPaymentViews(sql: Tx, ids: readonly string[]): Promise<PaymentView[]> {
  return sql<PaymentView[]>`
    select ${sql.unsafe(VIEW_COLUMNS)}
    from payments
    where id = any(${[...ids]}::text[])`;
}

/** With its signature. */
export type AuthorizedView = PaymentView &
  Pick<Payment, "payerKind" | "signature" | "validAfter" | "validBefore">;

/** The payment an authorization was accepted as, for any link. */
export async function findPaymentByAuthorization(
  sql: Tx,
  key: { network: NetworkId; token: string; payer: string; nonce: string },
): Promise<AuthorizedView | undefined> {
  const [row] = await sql<AuthorizedView[]>`
    select
      ${sql.unsafe(VIEW_COLUMNS)},
      payments.payer_kind, payments.signature, payments.valid_after, payments.valid_before
    from payments
    where network = ${key.network} and token = ${key.token} and payer = ${key.payer} and nonce = ${key.nonce}
      and authorization_digest(network, token, payer, nonce)
        = authorization_digest(${key.network}, ${key.token}, ${key.payer}, ${key.nonce})`;
  return row;
}

/** The use of a link that an authorization (ERC-3009) was accepted for, with whatever idempotency key. */
export async function findUseByAuthorization(
  tx: Tx,
  parent: { id: string; network: NetworkId },
  { from: payer, nonce }: { from: Hex; nonce: Hex },
): Promise<string | undefined> {
  const [row] = await tx<{ id: string }[]>`
    select link.id
    from payments
    join payment_links link on link.id = payments.link_id
    where payments.id = any(array(
        ${idsByAuthorization(tx, parent, [{ payer, nonce }])}
      ))
      and link.parent_id = ${parent.id}`;
  return row?.id;
}
