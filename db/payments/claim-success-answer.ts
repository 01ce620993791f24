/**
 * Who receives the success of a facilitated payment. A success releases a resource, so it is answered once, to the API key that
 * submitted the payment; again only to a request that is provably the same one.
 *
 *   (none) --claimed--> SENDING --handed to an open connection--> SENT
 *                       SENDING --connection closed before--> CUT
 *                       CUT | SENDING whose lease is over --claimed again, same content, 60 s--> SENDING
 */
import type { Tx } from "../postgres/client.ts";

/** The lease of a claim: a live process hands the answer over sooner, or claims again. */
export const ANSWER_LEASE_S = 5;
/** How long an undelivered answer can be claimed again. */
export const REPEAT_WINDOW_S = 60;

export type Asker = {
  userId: string;
  keyId: string;
  idempotencyKey: string | undefined;
  /** SHA-256 of the request's content. */
  digest: Uint8Array;
  /** The payload carries a `payment-identifier`, and the seller has not ruled it out: equal content is the same request, any number of times. */
  isIdentified: boolean;
};

export type AnswerClaim =
  /** The caller may answer success until the lease ends. */
  | "claimed"
  /** The same request is being answered concurrently. */
  | "busy"
  | "refused"
  /** Not settled, or no longer settled. */
  | "unsettled";

/** Claims the right to answer success. Idempotent by `claimId`, for a retry after a commit with an unknown outcome. */
export async function claimAnswer(
  tx: Tx,
  paymentId: string,
  asker: Asker,
  claimId: string,
): Promise<AnswerClaim> {
  const claimed = await tx`
    update payments
    set
      told_to = coalesce(${addresseeOf(asker)}::text, told_to, ${claimId}),
      answer_state = case
        when told_to is not null and coalesce(answer_state, 'SENT') = 'SENT' then 'SENT'
        else 'SENDING'
      end,
      answer_claim = ${claimId},
      answer_digest = ${asker.digest},
      answered_at = now(),
      facilitator_key_id = ${asker.keyId}
    where id = ${paymentId} and ${isSettled(tx)} and ${isDue(tx, asker, claimId)}
    returning 1`;
  return claimed.length === 1 ? "claimed" : explain(tx, paymentId, asker);
}

/** Whether a claim by this caller would be granted now. */
export async function isAnswerDue(tx: Tx, paymentId: string, asker: Asker): Promise<boolean> {
  const rows = await tx`
    select
    from payments
    where id = ${paymentId} and ${isSettled(tx)} and ${isDue(tx, asker, "")}`;
  return rows.length === 1;
}

/** The answer was written to an open connection: final, whatever happens to this payment's answers later. */
export async function recordSent(tx: Tx, paymentId: string): Promise<void> {
  // losing this commit leaves a claim whose lease ends: the answer is given again, never withheld
  await tx`
    update payments
    set answer_state = 'SENT', answered_at = now()
    from set_config('synchronous_commit', 'off', true)
    where id = ${paymentId} and answer_state is distinct from 'SENT'`;
}

/** The connection closed before the answer was written. No effect when another request has claimed it since. */
export async function recordCut(tx: Tx, paymentId: string, claimId: string): Promise<void> {
  await tx`
    update payments
    set answer_state = 'CUT', answered_at = now()
    where id = ${paymentId} and answer_claim = ${claimId} and answer_state = 'SENDING'`;
}

async function explain(tx: Tx, paymentId: string, asker: Asker): Promise<AnswerClaim> {
  const [row] = await tx<{ isBusy: boolean | null }[]>`
    select
      ${isOwner(tx, asker)}
      and answer_digest = ${asker.digest}
      and answer_state in ('SENDING', 'CUT')
      and answered_at > now() - make_interval(secs => ${REPEAT_WINDOW_S}) as is_busy
    from payments
    where id = ${paymentId} and ${isSettled(tx)}`;
  if (!row) return "unsettled";
  // includes one that expired since the claim: the next attempt is granted then
  return row.isBusy ? "busy" : "refused";
}

function addresseeOf({ userId, idempotencyKey }: Asker): string | null {
  return idempotencyKey === undefined ? null : `${userId} ${idempotencyKey}`;
}

function isSettled(tx: Tx) {
  return tx`link_id is null and state in ('MINED', 'CONFIRMED')`;
}

/** Payments of older versions know only their user. */
function isOwner(tx: Tx, { userId, keyId }: Asker) {
  return tx`facilitator_user_id = ${userId} and coalesce(facilitator_key_id, ${keyId}) = ${keyId}`;
}

function isDue(tx: Tx, asker: Asker, claimId: string) {
  return tx`
    ${isOwner(tx, asker)}
    and (
      told_to is null
      or told_to = ${addresseeOf(asker)}::text
      or answer_claim = ${claimId}
      or (
        answer_digest = ${asker.digest}
        and (
          ${asker.isIdentified}
          or (
            answer_state = 'CUT'
            and answered_at > now() - make_interval(secs => ${REPEAT_WINDOW_S})
          )
          or (
            answer_state = 'SENDING'
            and answered_at <= now() - make_interval(secs => ${ANSWER_LEASE_S})
            and answered_at > now() - make_interval(secs => ${REPEAT_WINDOW_S})
          )
        )
      )
    )`;
}
