/** Uses of reusable links: opened for a payer, counted against the link's maximum (max-uses.ts), and listed for the merchant. */
import type { LinkStatus } from "../../core/domain/link.ts";
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import {
  COUNTED_USE_LIFE_MINUTES,
  choiceOf,
  isTooFine,
  USE_LIFE_MINUTES,
} from "../../core/domain/reusable-link.ts";
import type { Tx } from "../postgres/client.ts";
import { columnsOf } from "../postgres/columns-of.ts";
import { type PaymentLink, paymentLinks } from "../schema.ts";
import { endClaimsOf } from "./end-claims.ts";
import type { LinkPosition } from "./links.ts";
import { reservePayAmount, takePayAmount } from "./pay-amounts.ts";
import { countOpening, findRank, type Opener, takePlace } from "./places.ts";
import { restsOnClaims } from "./rests-on-claims.ts";

/** Unique amounts for an address, link and hour. */
const PAY_AMOUNTS_MAX = 5;

/** `isSigned`: for an x402 payment, whose authorization names it. */
type OpeningUse = {
  parentId: string;
  id: string;
  tag: Hex;
  amountUnits: bigint | undefined;
  isSigned?: boolean;
} & Opener;

export type OpenedUse =
  | { ok: true; link: PaymentLink }
  | {
      ok: false;
      reason:
        | "NOT_FOUND"
        | "LINK_NOT_PAYABLE"
        | "AMOUNT_REQUIRED"
        | "AMOUNT_BELOW_REQUIRED"
        | "AMOUNT_EXCEEDS_MAXIMUM";
    }
  /** `nextPlaceAt` and `isContended`: see TakenPlace. */
  | { ok: false; reason: "LINK_ALREADY_PAID"; nextPlaceAt: Date | null; isContended: boolean };

/**
 * Opens a use of a reusable link, or returns the one that has this id. `amountUnits` is the payer's choice and counts for open amounts
 * alone. Locks the wallet and then the link: uses are opened one at a time, so that their maximum holds and unique amounts differ.
 */
export async function openUse(tx: Tx, given: OpeningUse): Promise<OpenedUse> {
  await tx`
    select
    from wallets
    where (network, address) = (select network, recipient from payment_links where id = ${given.parentId})
    for no key update`;
  const [parent] = await tx<(PaymentLink & { isOver: boolean })[]>`
    select ${columnsOf(tx, paymentLinks)}, status <> 'ACTIVE' or expires_at <= now() as is_over
    from payment_links
    where id = ${given.parentId} and is_reusable
    for no key update`;
  if (!parent) return { ok: false, reason: "NOT_FOUND" };
  const known = await findUse(tx, given);
  if (known) return { ok: true, link: known };
  if (parent.isOver) return { ok: false, reason: "LINK_NOT_PAYABLE" };
  const choice = choiceOf(parent);
  const amountUnits = choice ? given.amountUnits : parent.amountUnits;
  if (amountUnits === undefined || (choice && isTooFine(amountUnits)))
    return { ok: false, reason: "AMOUNT_REQUIRED" };
  if (choice && amountUnits < choice.minUnits) return { ok: false, reason: "AMOUNT_BELOW_REQUIRED" };
  if (choice && amountUnits > choice.maxUnits) return { ok: false, reason: "AMOUNT_EXCEEDS_MAXIMUM" };
  const { network, recipient, maxPayments } = parent;
  const { opener, replaces, isSigned = false } = given;
  // what is paid by an authorization needs neither where nothing limits the payments
  const rank = maxPayments === null && isSigned ? undefined : await findRank(tx, parent.id, opener);
  if (rank !== undefined && maxPayments !== null) {
    const place = await takePlace(tx, { id: parent.id, maxPayments }, { rank, replaces });
    if (!place.ok) return { ...place, reason: "LINK_ALREADY_PAID" };
  }
  if (rank !== undefined) await countOpening(tx, parent.id, opener);
  // A chosen amount is matched by tag, nonce, proof or the merchant, so a unique amount would add nothing. A wallet has 900 for a price, and
  // its other links need them too: one address does not use them up.
  const isTyped = !choice && !isSigned && rank !== undefined && rank <= PAY_AMOUNTS_MAX;
  const payAmount = isTyped ? await takePayAmount(tx, { network, recipient, amountUnits }) : undefined;
  const lifeMinutes = maxPayments === null ? USE_LIFE_MINUTES : COUNTED_USE_LIFE_MINUTES;
  const [link] = await tx<PaymentLink[]>`
    insert into payment_links (
      id, parent_id, user_id, network, recipient, amount_units, description, expires_at, tag, pay_amount_units, created_block,
      reference, metadata, success_url, cancel_url, place_rank
    )
    select
      ${given.id}, id, user_id, network, recipient, ${amountUnits}::bigint, description,
      least(expires_at, now() + make_interval(mins => ${lifeMinutes}::int)), ${given.tag}::bytea, ${payAmount?.units ?? null}::bigint,
      (select number from cursors where network = ${network}), reference, metadata, success_url, cancel_url,
      ${maxPayments === null ? null : (rank ?? null)}::smallint
    from payment_links
    where id = ${given.parentId}
    returning ${columnsOf(tx, paymentLinks)}`;
  if (!link) throw new Error(`no use of ${given.parentId} was stored`);
  if (payAmount) await reservePayAmount(tx, { linkId: link.id, network, recipient, ...payAmount });
  return { ok: true, link };
}

/** A use that nothing pays yet and that can still be paid. */
export async function findUnpaidUse(
  tx: Tx,
  given: { id: string; parentId: string },
): Promise<PaymentLink | undefined> {
  const use = await findUse(tx, given);
  return use && use.status === "ACTIVE" && use.expiresAt > new Date() ? use : undefined;
}

async function findUse(
  tx: Tx,
  { id, parentId }: { id: string; parentId: string },
): Promise<PaymentLink | undefined> {
  const [row] = await tx<PaymentLink[]>`
    select ${columnsOf(tx, paymentLinks)}
    from payment_links
    where id = ${id} and parent_id = ${parentId}`;
  return row;
}

/** When their link is cancelled, ends the uses that no payment or transfer holds, with their claims. */
export async function cancelUses(tx: Tx, parentId: string): Promise<{ id: string; userId: string }[]> {
  // in the order in which a group of payments locks them
  await tx`
    select id
    from payment_links
    where parent_id = ${parentId} and status in ('ACTIVE', 'PENDING') and expires_at > now()
    order by id
    for update`;
  const ended = await tx<{ id: string; userId: string }[]>`
    update payment_links use
    set status = 'CANCELLED', updated_at = now()
    where parent_id = ${parentId}
      and expires_at > now()
      and (status = 'ACTIVE' or status = 'PENDING' and ${restsOnClaims(tx, "use")})
    returning id, user_id`;
  const ids = ended.map(({ id }) => id);
  await endClaimsOf(tx, ids, "link_cancelled");
  return ended;
}

export type LinkPayment = {
  linkId: string;
  paymentId: string | null;
  transactionId: string | null;
  status: LinkStatus;
  network: NetworkId;
  amountUnits: bigint;
  refundedUnits: bigint;
  payer: Hex | null;
  txHash: Hex | null;
  paidAt: Date | null;
  createdAt: Date;
  createdAtMicros: bigint;
  id: string;
};

/** What pays or has paid a link: its uses, or itself when it is paid once. Newest first. */
export async function listLinkPayments(
  tx: Tx,
  { linkId, userId }: { linkId: string; userId: string },
  page: { after?: LinkPosition | undefined; limit: number },
): Promise<LinkPayment[]> {
  const { after } = page;
  const rest = after
    ? tx`and (link.created_at, link.id) < (to_timestamp_micros(${after.createdAtMicros}::bigint), ${after.id}::text)`
    : tx``;
  return tx<LinkPayment[]>`
    select
      link.id, link.id as link_id, coalesce(paying.payment_id, live.id) as payment_id, history.id as transaction_id, link.status,
      link.network, coalesce(link.paid_units, link.amount_units) as amount_units, link.refunded_units,
      coalesce(paying.from_address, live.payer) as payer, paying.tx_hash, link.paid_at, link.created_at,
      timestamp_micros(link.created_at) as created_at_micros
    from payment_links link
    left join lateral (
      select id, payment_id, from_address, tx_hash
      from transfers
      where transfers.link_id = link.id and transfers.pays and transfers.status <> 'ORPHANED'
      limit 1
    ) paying on true
    left join lateral (
      select id, payer
      from payments
      where payments.link_id = link.id and payments.is_live
      limit 1
    ) live on true
    left join lateral (
      select id
      from transactions
      where transactions.transfer_id = paying.id and transactions.type = 'PAYMENT_LINK'
      limit 1
    ) history on true
    where (link.id = ${linkId} or link.parent_id = ${linkId})
      and link.user_id = ${userId}
      and link.status in ('PENDING', 'PAID')
      ${rest}
    order by link.created_at desc, link.id desc
    limit ${page.limit}`;
}
