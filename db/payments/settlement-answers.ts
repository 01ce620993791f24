/**
 * To whom the success of a facilitated payment is answered. A success releases a resource, so it is answered once, to the API key that
 * brought the payment; again only to a request that is known to be the same one.
 *
 *   (none) --claimed--> SENDING --handed to an open connection--> SENT
 *                       SENDING --connection closed before--> CUT
 *                       CUT | SENDING whose lease is over --claimed again, same content, 60 s--> SENDING
 */
import type { Tx } from "../postgres/client.ts";

/** A claim that nothing was heard of for so long belongs to a process that is gone. Who claims hands over in less time, or claims again. */
export const ANSWER_LEASE_S = 5;
/** An answer that did not arrive can be had again for so long. */
export const REPEAT_WINDOW_S = 60;

export type Asker = {
  userId: string;
  keyId: string;
  idempotencyKey: string | undefined;
  /** SHA-256 of the request's content. */
  digest: Uint8Array;
  /** The payload carries a `payment-identifier`: the same content is the same request, however often it comes. */
  isIdentified: boolean;
};

export type AnswerClaim =
  /** The success is this asker's to hear, until the lease is over. */
  | "claimed"
  /** The same request is being answered at this moment. */
  | "busy"
  | "refused"
  /** Not settled, or not any more. */
  | "unsettled";

/** Claims the right to answer success. The same `claimId` again, as after a commit whose outcome was not learnt, is the same claim. */
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

/** Would a claim of this asker be granted now? */
export async function isAnswerDue(tx: Tx, paymentId: string, asker: Asker): Promise<boolean> {
  const rows = await tx`
    select
    from payments
    where id = ${paymentId} and ${isSettled(tx)} and ${isDue(tx, asker, "")}`;
  return rows.length === 1;
}

/** The answer was handed to an open connection. Whatever else happens to this payment's answers, it was answered. */
export async function recordSent(tx: Tx, paymentId: string): Promise<void> {
  // losing this leaves a claim whose lease ends: the answer is given again, never withheld
  await tx`
    update payments
    set answer_state = 'SENT', answered_at = now()
    from set_config('synchronous_commit', 'off', true)
    where id = ${paymentId} and answer_state is distinct from 'SENT'`;
}

/** The connection was closed before the answer was handed over. Nothing changes when somebody else has claimed it since. */
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
  // also one that has become due since the claim: then the next one is granted
  return row.isBusy ? "busy" : "refused";
}

function addresseeOf({ userId, idempotencyKey }: Asker): string | null {
  return idempotencyKey === undefined ? null : `${userId} ${idempotencyKey}`;
}

function isSettled(tx: Tx) {
  return tx`link_id is null and state in ('MINED', 'CONFIRMED')`;
}

/** Payments of a version before this one know their user alone. */
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
