/** The books a range of transfers is judged by: payments, claims and links they could settle, locked until the transaction ends. */

import { type Hex, NETWORKS, type NetworkId } from "../core/domain/networks.ts";
import type {
  AttributableTransfer,
  Books,
  ClaimFacts,
  LinkFacts,
  PaymentFacts,
} from "../core/domain/transfer.ts";
import type { Tx } from "./client.ts";
import { lockLinks } from "./payments.ts";

export type AuthorizationKey = { payer: Hex; nonce: Hex };

/** Links' payments of these authorizations, locked in one order. Payments are locked before links everywhere. */
export async function loadPayments(
  tx: Tx,
  network: NetworkId,
  authorizations: readonly AuthorizationKey[],
): Promise<PaymentFacts[]> {
  if (authorizations.length === 0) return [];
  return tx<PaymentFacts[]>`
    select id, link_id, payer, nonce, recipient, amount_units, state = 'FAILED' as is_failed
    from payments
    where id = any(array(
        select payment.id
        from unnest(
          ${authorizations.map((one) => one.payer)}::text[],
          ${authorizations.map((one) => one.nonce)}::text[]
        ) as given (payer, nonce)
        cross join lateral (
          select id
          from payments
          where network = ${network}
            and token = ${NETWORKS[network].usdc.address}
            and payer = given.payer
            and nonce = given.nonce
          limit 1
        ) payment
      ))
      and link_id is not null
    order by id
    for update`;
}

type Judged = {
  /** All to wallets of ours, in the chain's order. */
  transfers: readonly AttributableTransfer[];
  payments: readonly PaymentFacts[];
  /** Links that count as paid, beside those that a transfer pays. */
  takenLinkIds?: readonly string[];
};

/** Everything these transfers could settle. */
export async function loadBooks(
  tx: Tx,
  network: NetworkId,
  { transfers, payments, takenLinkIds = [] }: Judged,
): Promise<Books> {
  const known = new Set(payments.map(settlingKey));
  // what executes a payment's authorization settles that payment's link: neither claims nor other links are asked
  const open = transfers.filter(
    ({ from, to, authorizationNonce: nonce, amountUnits }) =>
      nonce === undefined || !known.has(settlingKey({ payer: from, nonce, recipient: to, amountUnits })),
  );
  const [claims, fitting] =
    open.length === 0
      ? [[], []]
      : await Promise.all([
          loadClaims(tx, network, open),
          findFittingLinks(tx, network, open, { all: transfers, takenLinkIds }),
        ]);
  const linkIds = [...payments, ...claims].map((row) => row.linkId);
  const taken = new Set(takenLinkIds);
  const facts = await lockLinkFacts(tx, [...new Set([...linkIds, ...fitting])]);
  const links = facts.map((link) => ({ ...link, isTaken: link.isTaken || taken.has(link.id) }));
  return { links, payments, claims };
}

function settlingKey(one: Pick<PaymentFacts, "payer" | "nonce" | "recipient" | "amountUnits">): string {
  return [one.payer, one.nonce, one.recipient, one.amountUnits].join(":");
}

/** A MATCHED claim has its transfer: another log of the same transaction is not what it speaks of. */
async function loadClaims(
  tx: Tx,
  network: NetworkId,
  transfers: readonly AttributableTransfer[],
): Promise<ClaimFacts[]> {
  return tx<ClaimFacts[]>`
    select id, link_id, tx_hash, client_address
    from claims
    where network = ${network}
      and tx_hash = any(${[...new Set(transfers.map((transfer) => transfer.txHash))]}::text[])
      and state <> 'REJECTED'
      and state <> 'MATCHED'
    order by created_at, id`;
}

/**
 * Unpaid links with a transfer's amount and recipient: those open at its block's time, and those over by then. Of either no
 * more than `all` transfers of this amount together could use up, plus two: enough to know that there is not exactly one.
 */
async function findFittingLinks(
  tx: Tx,
  network: NetworkId,
  transfers: readonly AttributableTransfer[],
  { all, takenLinkIds }: { all: readonly AttributableTransfer[]; takenLinkIds: readonly string[] },
): Promise<string[]> {
  const rivals = countBy(all, (transfer) => `${transfer.to}:${transfer.amountUnits}`);
  const rows = await tx<{ id: string }[]>`
    with given as (
      select distinct recipient, amount_units, to_timestamp(block_time) as block_time, rivals
      from unnest(
        ${transfers.map((transfer) => transfer.to)}::text[],
        ${transfers.map((transfer) => transfer.amountUnits.toString())}::numeric[],
        ${transfers.map((transfer) => transfer.blockTimeMs / 1000)}::float8[],
        ${transfers.map((transfer) => rivals.get(`${transfer.to}:${transfer.amountUnits}`) ?? 1)}::int[]
      ) as row (recipient, amount_units, block_time, rivals)
      where amount_units <= 9223372036854775807
    ),
    moments as (
      select recipient, amount_units::bigint as amount_units, block_time, rivals
      from given
      where exists (
        select from payment_links link
        where link.network = ${network}
          and link.recipient = given.recipient
          and link.amount_units = given.amount_units::bigint
          and link.status <> 'PAID'
      )
    )
    select distinct found.id
    from moments
    cross join lateral (
      (
        select link.id
        from payment_links link
        where link.network = ${network}
          and link.recipient = moments.recipient
          and link.amount_units = moments.amount_units
          and link.status <> 'PAID'
          and link.expires_at >= moments.block_time
          and link.created_at < moments.block_time + interval '1 second'
          and (link.cancelled_at is null or link.cancelled_at > moments.block_time)
          and link.id <> all(${[...takenLinkIds]}::text[])
          and not exists (
            select from transfers
            where transfers.link_id = link.id and transfers.pays and transfers.status <> 'ORPHANED'
          )
        limit moments.rivals + 2
      )
      union all
      (
        select link.id
        from payment_links link
        where link.network = ${network}
          and link.recipient = moments.recipient
          and link.amount_units = moments.amount_units
          and link.status <> 'PAID'
          and link.expires_at < moments.block_time
          and link.cancelled_at is null
          and link.id <> all(${[...takenLinkIds]}::text[])
          and not exists (
            select from transfers
            where transfers.link_id = link.id and transfers.pays and transfers.status <> 'ORPHANED'
          )
        limit moments.rivals + 2
      )
    ) found`;
  return rows.map((row) => row.id);
}

function countBy<Item>(items: readonly Item[], keyOf: (item: Item) => string): Map<string, number> {
  const counts = new Map<string, number>();
  for (const item of items) counts.set(keyOf(item), (counts.get(keyOf(item)) ?? 0) + 1);
  return counts;
}

async function lockLinkFacts(tx: Tx, linkIds: readonly string[]): Promise<LinkFacts[]> {
  if (linkIds.length === 0) return [];
  // a new snapshot: what others committed while we waited for the locks
  const [, rows] = await Promise.all([lockLinks(tx, linkIds), readLinkFacts(tx, linkIds)]);
  return rows.map(({ createdAt, expiresAt, cancelledAt, livePaymentId, ...link }) => ({
    ...link,
    createdAtMs: createdAt.getTime(),
    expiresAtMs: expiresAt.getTime(),
    cancelledAtMs: cancelledAt?.getTime(),
    livePaymentId: livePaymentId ?? undefined,
  }));
}

type LinkRow = Pick<LinkFacts, "id" | "recipient" | "amountUnits" | "isTaken"> & {
  createdAt: Date;
  expiresAt: Date;
  cancelledAt: Date | null;
  livePaymentId: string | null;
};

function readLinkFacts(tx: Tx, linkIds: readonly string[]): Promise<LinkRow[]> {
  return tx<LinkRow[]>`
    select
      link.id, link.recipient, link.amount_units, link.created_at, link.expires_at, link.cancelled_at,
      paying.id is not null as is_taken, payment.id as live_payment_id
    from payment_links link
    left join lateral (
      select id
      from transfers
      where transfers.link_id = link.id and transfers.pays and transfers.status <> 'ORPHANED'
      limit 1
    ) paying on true
    left join lateral (
      select id
      from payments
      where payments.link_id = link.id and payments.state <> 'FAILED'
      limit 1
    ) payment on true
    where link.id = any(${[...linkIds]}::text[])`;
}
