/** How an open claim ends without its transfer: disproved, expired, cancelled with its link, or as a hint that decides nothing. */
import { recordEvents } from "../events/events.ts";
import type { Tx } from "../postgres/client.ts";
import { notify } from "../postgres/notifications.ts";
import type { Claim, PaymentLink } from "../schema.ts";
import { lockLinks } from "./lock-links.ts";
import { hasUnappliedTransfer } from "./unapplied-transfers.ts";

/** OPEN -> HINT: another link claims the same transaction. Call with both links locked. */
export async function demoteContested(tx: Tx, { id, linkId }: Pick<Claim, "id" | "linkId">): Promise<void> {
  const demoted = await tx`
    update claims
    set state = 'HINT', reason = 'contested', updated_at = now()
    where id = ${id} and state = 'OPEN' and proof is null
    returning id`;
  if (demoted.length > 0) await letGo(tx, { id, linkId }, "claim_contested");
}

/**
 * OPEN -> HINT for a claim that can no longer decide anything: it held the only link of its amount, another one was created since, and
 * its transfer was received without a link. An early claim still decides when the indexer next checks it. Returns whether it was demoted.
 */
export async function demoteUndecided(
  tx: Tx,
  { id, linkId }: Pick<Claim, "id" | "linkId">,
): Promise<boolean> {
  await lockLinks(tx, [linkId]);
  const demoted = await tx`
    update claims claim
    set state = 'HINT', reason = 'ambiguous', updated_at = now()
    from payment_links link
    join users on users.id = link.user_id
    where claim.id = ${id} and claim.state = 'OPEN' and claim.proof is null
      and link.id = claim.link_id
      and not (claim.is_early and users.claim_policy = 'early')
      and exists (
        select from transfers
        where transfers.tx_hash = bytes_of(claim.tx_hash)
          and transfers.network = claim.network
          and transfers.status <> 'ORPHANED'
          and transfers.from_address = bytes_of(claim.client_address)
          and transfers.to_address = link.recipient
          and transfers.link_id is null
      )
    returning claim.id`;
  if (demoted.length > 0) await letGo(tx, { id, linkId }, "claim_ambiguous");
  return demoted.length > 0;
}

/** A claim that has become a hint holds its link no longer, and its row leaves the history. */
async function letGo(tx: Tx, { id, linkId }: Pick<Claim, "id" | "linkId">, reason: string): Promise<void> {
  await tx`delete from transactions where claim_id = ${id} and status = 'PENDING' and transfer_id is null`;
  await releaseLink(tx, linkId, reason);
}

/** OPEN -> EXPIRED for all claims of links that were ended although they held them; deletes their history rows. */
export async function endClaimsOf(
  tx: Tx,
  linkIds: readonly string[],
  reason: "link_cancelled" | "place_given",
): Promise<void> {
  await tx`
    with ended as (
      update claims
      set state = 'EXPIRED', reason = ${reason}, updated_at = now()
      where link_id = any(${[...linkIds]}::text[]) and state = 'OPEN'
      returning id
    )
    delete from transactions
    using ended
    where transactions.claim_id = ended.id and transactions.status = 'PENDING' and transactions.transfer_id is null`;
}

/**
 * Ends an open claim and releases its link when nothing else holds it. An EXPIRED claim still counts if its transaction is mined
 * later, a REJECTED one never does. The history row is deleted, or FAILED when the chain disproved the claim.
 * The link is locked first, so that the search for other holders sees what previous lock holders committed.
 * `updatedAtMicros`: the last change of the claim that was judged. One that has changed since then is left: whatever opened or proved it,
 * or checked it meanwhile, has queued a check of its own.
 */
export async function endClaim(
  tx: Tx,
  {
    id,
    state,
    reason,
    isProven,
    updatedAtMicros,
  }: {
    id: string;
    state: "REJECTED" | "EXPIRED";
    reason: string;
    isProven: boolean;
    updatedAtMicros?: bigint;
  },
): Promise<boolean> {
  await tx`
    select id
    from payment_links
    where id = (select link_id from claims where id = ${id})
    for update`;
  const [claim] = await tx<Pick<Claim, "linkId">[]>`
    update claims
    set state = ${state}, reason = ${reason}, updated_at = now()
    where id = ${id}
      and state = 'OPEN'
      ${updatedAtMicros === undefined ? tx`` : tx`and timestamp_micros(updated_at) = ${updatedAtMicros}::bigint`}
    returning link_id`;
  if (!claim) return false;
  if (isProven) {
    const rows = await tx<{ id: string; userId: string }[]>`
      update transactions
      set status = 'FAILED', failure_reason = ${reason}, updated_at = now()
      where claim_id = ${id} and status = 'PENDING' and transfer_id is null
      returning id, user_of(owner) as user_id`;
    await recordEvents(
      tx,
      rows.map((row) => ({
        userId: row.userId,
        type: "transaction.failed" as const,
        subjectId: row.id,
        data: { reason },
      })),
    );
  } else {
    await tx`delete from transactions where claim_id = ${id} and status = 'PENDING' and transfer_id is null`;
  }
  await releaseLink(tx, claim.linkId, reason);
  return true;
}

/** PENDING -> ACTIVE, or EXPIRED when it has expired, once no payment, transfer or other claim holds the link. */
async function releaseLink(tx: Tx, linkId: string, reason: string): Promise<void> {
  const [link] = await tx<Pick<PaymentLink, "userId" | "status">[]>`
    update payment_links link
    set status = case when expires_at <= now() then 'EXPIRED' else 'ACTIVE' end, updated_at = now()
    where id = ${linkId}
      and status = 'PENDING'
      and not exists (select from payments where payments.link_id = link.id and payments.is_live)
      and not exists (
        select from transfers
        where transfers.link_id = link.id and transfers.pays and transfers.status <> 'ORPHANED'
      )
      and not exists (
        select from claims
        where claims.link_id = link.id and claims.state = 'OPEN' and claims.lease_until > now()
      )
      and not ${hasUnappliedTransfer(tx, { id: "link.id", amountUnits: "link.amount_units", payAmountUnits: "link.pay_amount_units" })}
    returning user_id, status`;
  if (!link) return;
  const type = link.status === "EXPIRED" ? "payment_link.expired" : "payment_link.released";
  await recordEvents(tx, [{ userId: link.userId, type, subjectId: linkId, data: { reason } }]);
  await notify(tx, [linkId]);
}
