/**
 * A payment link's status and exception, computed from the ledger as a whole instead of changed step by step: one statement serves a
 * block, a range, a late claim and a reorganisation. When the paying transfer left the chain, PAID becomes what the rest of the ledger
 * implies: PENDING while something else holds the link, else ACTIVE, or EXPIRED when it has expired. Which link a transfer belongs to, a
 * late one too, is decided in `core/domain/attribute-transfers.ts`; what each exception means is said in `core/domain/link.ts`.
 */
import { enqueue } from "../jobs/queue.ts";
import { queueDocuments } from "../jobs/queue-documents.ts";
import type { Tx } from "../postgres/client.ts";
import { notify } from "../postgres/notifications.ts";
import { lockLinks } from "./lock-links.ts";
import { noteReceiptMails } from "./receipts.ts";

/** `mismatchMinUnits`: a smaller transfer of a wrong amount sets no exception on a link, since everyone can send dust. */
export type LinkRefresh = {
  linkIds: readonly string[];
  isReorg: boolean;
  mismatchMinUnits?: bigint | undefined;
};

type LinkMove = { id: string; before: string; after: string; wantsReceipt: boolean };

/**
 * Computes these links from the ledger: PAID when their transfer is CONFIRMED; PENDING with one that is not, a live payment, an open
 * claim, or a transfer of its exact amount that is booked on it without paying it; else ACTIVE, or EXPIRED when it has expired. CANCELLED
 * stays. Returns the changed links, and notifies their watchers.
 */
export async function recomputeLinkStatus(
  tx: Tx,
  { linkIds, isReorg, mismatchMinUnits = 0n }: LinkRefresh,
): Promise<LinkMove[]> {
  if (linkIds.length === 0) return [];
  const ids = [...new Set(linkIds)];
  // the second statement sees what others committed before the first had its locks
  const [, moves] = await Promise.all([
    lockLinks(tx, ids),
    computeLinks(tx, { ids, isReorg, mismatchMinUnits }),
  ]);
  const paid = moves.filter(({ before, after }) => before === "PAID" || after === "PAID");
  await Promise.all([
    queueReceipts(tx, moves),
    queueDocuments(
      tx,
      paid.map(({ id }) => id),
    ),
    notify(
      tx,
      moves.map(({ id }) => id),
    ),
  ]);
  return moves;
}

/** The e-mails of links that have just become PAID. */
async function queueReceipts(tx: Tx, moves: readonly LinkMove[]): Promise<void> {
  const paid = moves.filter(({ after, wantsReceipt }) => after === "PAID" && wantsReceipt);
  const noted = await noteReceiptMails(
    tx,
    paid.map(({ id }) => id),
  );
  for (const { id: receiptId } of noted) await enqueue(tx, "send_receipt_email", { receiptId });
}

function computeLinks(
  tx: Tx,
  { ids, isReorg, mismatchMinUnits }: { ids: readonly string[]; isReorg: boolean; mismatchMinUnits: bigint },
): Promise<LinkMove[]> {
  return tx<LinkMove[]>`
    with facts as (
      select
        link.id, link.status as old_status, link.exception as old_exception, link.expires_at,
        paying.status as paying_status, paying.block_time, paying.tx_hash, paying.settled_by, paying.amount_units as paying_units,
        coalesce(mismatched.exception, 'NONE') as mismatch,
        exists (
          select from payments
          where payments.link_id = link.id and payments.is_live and payments.is_open
          offset 0
        )
        -- one made once the link is over holds nothing (openClaim), also before the job that expires it has run
        or (link.status in ('PENDING', 'PAID') or link.expires_at > now()) and exists (
          select from claims
          where claims.link_id = link.id and claims.state = 'OPEN' and claims.lease_until > now()
          offset 0
        ) as is_held
      from payment_links link
      left join lateral (
        select id, status, block_time, tx_hash, settled_by, amount_units
        from transfers
        where transfers.link_id = link.id and transfers.pays and transfers.status <> 'ORPHANED'
        limit 1
      ) paying on true
      left join lateral (
        select
          case
            when count(*) = 0 then null
            when paying.id is not null or bool_or(other.amount_units in (link.amount_units, link.pay_amount_units)) then 'DUPLICATE'
            when bool_or(other.amount_units > link.amount_units) then 'OVERPAID'
            else 'UNDERPAID'
          end as exception
        from transfers other
        where other.link_id = link.id
          and not other.pays
          and other.status <> 'ORPHANED'
          and (
            other.amount_units in (link.amount_units, link.pay_amount_units)
            or other.amount_units >= ${mismatchMinUnits}::bigint
          )
      ) mismatched on true
      where link.id = any(${[...ids]}::text[])
    ),
    decided as materialized (
      select
        id, old_status, old_exception, tx_hash, settled_by, paying_units,
        case
          when old_status = 'CANCELLED' then 'CANCELLED'
          when paying_status = 'CONFIRMED' then 'PAID'
          when paying_status is not null or is_held or mismatch = 'DUPLICATE' then 'PENDING'
          when expires_at <= now() then 'EXPIRED'
          else 'ACTIVE'
        end as status,
        case
          when mismatch <> 'NONE' then mismatch
          when block_time > expires_at then 'PAID_LATE'
          else 'NONE'
        end as exception,
        block_time
      from facts
    ),
    moved as (
      update payment_links link
      set
        status = decided.status,
        exception = decided.exception,
        paid_at = case when decided.status = 'PAID' then decided.block_time end,
        paid_units = case when decided.status = 'PAID' then decided.paying_units end,
        settled_by = decided.settled_by,
        updated_at = now()
      from decided
      where link.id = decided.id
        and link.id = any(${[...ids]}::text[])
        and (link.status, link.exception, link.paid_at, link.settled_by)
          is distinct from
          (
            decided.status, decided.exception, case when decided.status = 'PAID' then decided.block_time end,
            decided.settled_by
          )
      returning link.id, link.user_id, link.amount_units, link.network, decided.old_status, decided.old_exception,
        decided.status, decided.exception, decided.tx_hash, decided.settled_by,
        link.customer_email is not null as wants_receipt
    ),
    event as (
      insert into events (user_id, type, subject_id, data)
      select
        user_id, step.event, id,
        jsonb_build_object('status', status, 'exception', exception, 'network', network, 'txHash', hex_of(tx_hash), 'settledBy', settled_by)
      from moved
      cross join lateral (
        values
          (1, case
            when status = old_status then null
            when ${isReorg}::boolean then 'payment_link.reorged'
            when status = 'PAID' then 'payment_link.paid'
            when status = 'PENDING' then 'payment_link.pending'
            when status = 'EXPIRED' then 'payment_link.expired'
            when old_status in ('PENDING', 'PAID') then 'payment_link.released'
          end),
          (2, case when exception <> old_exception and exception <> 'NONE' then 'payment_link.exception' end)
      ) as step (place, event)
      where step.event is not null
      order by id, step.place
    )
    select id, old_status as before, status as after, wants_receipt
    from moved`;
}
