/**
 * Accepts payments together with their links: of several payers of a link only one is accepted, and each authorization only once. Retries go
 * through the same checks.
 */
import type { Language } from "../../core/domain/language.ts";
import { hasUnappliedTransfer } from "../links/unapplied-transfers.ts";
import { countUnknownOutcomes, UNKNOWN_OUTCOMES_MAX } from "../links/unknown-outcomes.ts";
import type { Tx } from "../postgres/client.ts";
import { toByteaText } from "../postgres/hex-bytes.ts";
import type { Payment } from "../schema.ts";

export type AuthorizedPayment = Pick<
  Payment,
  "id" | "network" | "token" | "payer" | "payerKind" | "recipient" | "amountUnits"
> &
  Pick<Payment, "validAfter" | "validBefore" | "nonce" | "signature" | "idempotencyKey"> & {
    /** For log lines while it is in flight; kept for an hour. */
    requestId: string | null;
  };

export type NewPayment = AuthorizedPayment & {
  linkId: string;
  /** The language of the page that the payer saw, if known. */
  payerLanguage?: Language | null | undefined;
};

/**
 * Accepts payments whose links are payable: inserts them QUEUED, which shows them in the history, and moves their links to PENDING.
 * Returns the accepted ids; the others lost to another payment, to an earlier use of their authorization, or to the link's state.
 * Call inside a transaction after `lockLinks`.
 */
export async function insertPayments(tx: Tx, payments: readonly NewPayment[]): Promise<Set<string>> {
  const rows = payments.map(toRow);
  const accepted = await tx<{ id: string }[]>`
    with given as (
      select *
      from json_to_recordset(${JSON.stringify(rows)}::text::json) as row (
        id text, link_id text, network text, token bytea, payer bytea, payer_kind text, recipient bytea,
        amount_units bigint, valid_after numeric, valid_before numeric, nonce bytea, signature bytea,
        idempotency_key text, request_id text, payer_language text
      )
    ),
    inserted as (
      insert into payments (
        id, link_id, network, token, payer, payer_kind, recipient, amount_units,
        valid_after, valid_before, nonce, signature, idempotency_key, accepted_block, payer_language
      )
      select
        given.id, given.link_id, given.network, given.token, given.payer, given.payer_kind, given.recipient,
        given.amount_units, given.valid_after, given.valid_before, given.nonce, given.signature,
        given.idempotency_key, (select number from cursors where network = given.network),
        given.payer_language
      from given
      cross join lateral (
        select id, amount_units, pay_amount_units
        from payment_links
        where id = given.link_id and status in ('ACTIVE', 'PENDING') and expires_at > now() and not is_reusable
        limit 1
      ) link
      left join lateral (
        select id
        from transfers
        where transfers.link_id = link.id and transfers.pays and transfers.status <> 'ORPHANED'
        limit 1
      ) paying on true
      where paying.id is null
        and not ${hasUnappliedTransfer(tx, { id: "link.id", amountUnits: "link.amount_units", payAmountUnits: "link.pay_amount_units" })}
        and ${countUnknownOutcomes(tx, "link.id")} < ${UNKNOWN_OUTCOMES_MAX}
      on conflict do nothing
      returning id, link_id
    ),
    requested as (
      insert into payment_requests (payment_id, request_id)
      select id, request_id
      from inserted
      join given using (id)
      where request_id is not null
      on conflict do nothing
    ),
    moved as (
      update payment_links
      set status = 'PENDING', updated_at = now()
      where id = any(array(select link_id from inserted)) and status in ('ACTIVE', 'PENDING')
      returning id, user_id
    ),
    event as (
      insert into events (user_id, type, subject_id, data)
      select user_id, 'payment_link.pending', moved.id, jsonb_build_object('paymentId', inserted.id)
      from inserted
      join moved on moved.id = inserted.link_id
    )
    select id from inserted`;
  return new Set(accepted.map((row) => row.id));
}

/**
 * Queues a payment again if its transaction does not exist or can no longer be executed, so that none of our bytes can still execute it.
 * The retry's signature, window and key replace the old ones. Undefined when its link is held or ended.
 */
export async function requeuePayment(
  tx: Tx,
  id: string,
  retry: Pick<
    NewPayment,
    | "signature"
    | "payerKind"
    | "validAfter"
    | "validBefore"
    | "idempotencyKey"
    | "requestId"
    | "payerLanguage"
  >,
): Promise<{ id: string } | undefined> {
  const [row] = await tx<{ id: string }[]>`
    with requeued as (
      update payments
      set
        state = 'QUEUED', reason = null, reason_text = null, refusals = 0, unavailable_since = null,
        next_try_at = now(), doubt_since = null, doubt_until = null,
        signature = ${retry.signature}, payer_kind = ${retry.payerKind},
        valid_after = ${retry.validAfter}, valid_before = ${retry.validBefore},
        idempotency_key = coalesce(${retry.idempotencyKey}, idempotency_key),
        payer_language = coalesce(${retry.payerLanguage ?? null}::text, payer_language),
        updated_at = now()
      where id = ${id}
        and state = 'FAILED'
        and relay_id is null
        and exists (
          select from payment_links link
          where link.id = payments.link_id
            and link.status in ('ACTIVE', 'PENDING')
            and link.expires_at > now()
            and not ${hasUnappliedTransfer(tx, { id: "link.id", amountUnits: "link.amount_units", payAmountUnits: "link.pay_amount_units" })}
        )
        and not exists (
          select from payments other
          where other.link_id = payments.link_id and other.is_live
        )
        and not exists (
          select from transfers
          where transfers.link_id = payments.link_id and transfers.pays and transfers.status <> 'ORPHANED'
        )
      returning id, link_id
    ),
    requested as (
      insert into payment_requests (payment_id, request_id)
      select id, ${retry.requestId}::text
      from requeued
      where ${retry.requestId}::text is not null
      on conflict (payment_id) do update
      set request_id = excluded.request_id, created_at = now()
    ),
    moved as (
      update payment_links
      set status = 'PENDING', updated_at = now()
      from requeued
      where payment_links.id = requeued.link_id and payment_links.status in ('ACTIVE', 'PENDING')
      returning payment_links.id, payment_links.user_id, requeued.id as payment_id
    ),
    history as (
      update transactions
      set status = 'PENDING', failure_reason = null, updated_at = now()
      from requeued
      where transactions.payment_id = requeued.id
    ),
    event as (
      insert into events (user_id, type, subject_id, data)
      select user_id, 'payment_link.pending', id, jsonb_build_object('paymentId', payment_id)
      from moved
    )
    select id from requeued`;
  return row;
}

function toRow(payment: NewPayment) {
  return {
    ...toAuthorizedRow(payment),
    link_id: payment.linkId,
    idempotency_key: payment.idempotencyKey,
    payer_language: payment.payerLanguage,
  };
}

/** The columns of links' and facilitated payments, for `json_to_recordset`. */
export function toAuthorizedRow(payment: AuthorizedPayment) {
  return {
    id: payment.id,
    network: payment.network,
    token: toByteaText(payment.token),
    payer: toByteaText(payment.payer),
    payer_kind: payment.payerKind,
    recipient: toByteaText(payment.recipient),
    amount_units: payment.amountUnits.toString(),
    valid_after: payment.validAfter.toString(),
    valid_before: payment.validBefore.toString(),
    nonce: toByteaText(payment.nonce),
    signature: toByteaText(payment.signature),
    request_id: payment.requestId,
  };
}
