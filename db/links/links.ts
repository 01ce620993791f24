/** Payment links: create, read, list, count and cancel. Every read returns the effective status at the current time. */
import type { LinkStatus } from "../../core/domain/link.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { NO_ORDER, type OrderData } from "../../core/domain/order-data.ts";
import { PAID_ONCE, type ReuseTerms } from "../../core/domain/reusable-link.ts";
import { unreachable } from "../../core/domain/unreachable.ts";
import type { Tx } from "../postgres/client.ts";
import { columnsOf } from "../postgres/columns-of.ts";
import { type PaymentLink, paymentLinks, type User } from "../schema.ts";
import { hasLapsed } from "./expire-links.ts";
import { isUsedUp } from "./max-uses.ts";
import { reservePayAmount, takePayAmount } from "./pay-amounts.ts";
import { restsOnClaims } from "./rests-on-claims.ts";
import type { MerchantPage } from "./schema.ts";
import { countUnknownOutcomes } from "./unknown-outcomes.ts";

export type NewLink = Pick<PaymentLink, "id" | "userId" | "network" | "amountUnits" | "description"> & {
  expiresInHours: number;
  /** A reusable link is never paid itself, so it has neither a tag nor a unique amount. */
  tag: Hex;
  order?: OrderData;
  isDiscoverable?: boolean;
  reuse?: ReuseTerms;
};

export type Inserted =
  | { ok: true; link: PaymentLink }
  | { ok: false; reason: "NO_WALLET" | "REFERENCE_TAKEN" };

/** A position in a list ordered by (created_at, id), both descending. Microseconds since 1970, the precision of Postgres. */
export type LinkPosition = { createdAtMicros: bigint; id: string };

/**
 * Inserts a link that pays into the user's wallet on its network. The wallet's row is locked: links are created one at a time, so that
 * each gets a unique amount. A reference is taken when another link of the user has it and either of the two asks to be the only one.
 */
export async function insertLink(tx: Tx, link: NewLink): Promise<Inserted> {
  const [wallet] = await tx<{ recipient: Hex }[]>`
    select address as recipient
    from wallets
    where user_id = ${link.userId} and network = ${link.network}
    for no key update`;
  if (!wallet) return { ok: false, reason: "NO_WALLET" };
  const { order = NO_ORDER, reuse = PAID_ONCE } = link;
  const payAmount = reuse.isReusable ? undefined : await takePayAmount(tx, { ...link, ...wallet });
  // two wallets of a user are locked apart: then the index decides
  const [row] = await tx<PaymentLink[]>`
    insert into payment_links (
      id, user_id, network, recipient, amount_units, description, expires_at, tag, pay_amount_units, created_block,
      reference, unique_reference, metadata, customer_email, success_url, cancel_url,
      is_reusable, max_payments, min_units, max_units, is_discoverable
    )
    select
      ${link.id}, ${link.userId}, ${link.network}, ${wallet.recipient}, ${link.amountUnits}::bigint, ${link.description},
      now() + make_interval(hours => ${link.expiresInHours}::int), ${reuse.isReusable ? null : link.tag}::bytea, ${payAmount?.units ?? null}::bigint,
      (select number from cursors where network = ${link.network}),
      ${order.reference}::text, ${order.uniqueReference}::boolean, ${JSON.stringify(order.metadata)}::text::jsonb,
      ${order.customerEmail}::text, ${order.successUrl}::text, ${order.cancelUrl}::text,
      ${reuse.isReusable}::boolean, ${reuse.maxPayments}::int, ${reuse.minUnits}::bigint, ${reuse.maxUnits}::bigint, ${link.isDiscoverable ?? false}::boolean
    where not exists (
      select from payment_links other
      where other.user_id = ${link.userId}
        and other.reference = ${order.reference}::text
        and (other.unique_reference or ${order.uniqueReference}::boolean)
    )
    ${order.uniqueReference ? tx`on conflict (user_id, reference) where unique_reference do nothing` : tx``}
    returning ${columnsOf(tx, paymentLinks)}`;
  if (!row) return { ok: false, reason: "REFERENCE_TAKEN" };
  if (payAmount)
    await reservePayAmount(tx, { linkId: link.id, network: link.network, ...wallet, ...payAmount });
  return { ok: true, link: row };
}

/** The user's own link. */
export async function findLink(
  tx: Tx,
  { id, userId }: { id: string; userId: string },
): Promise<PaymentLink | undefined> {
  const [row] = await tx<PaymentLink[]>`
    select ${columns(tx)}
    from payment_links link
    where id = ${id} and user_id = ${userId}`;
  return row;
}

export type PublicLink = Pick<
  PaymentLink,
  | "id"
  | "userId"
  | "network"
  | "recipient"
  | "amountUnits"
  | "payAmountUnits"
  | "description"
  | "status"
  | "expiresAt"
  | "createdAt"
  | "createdBlock"
  | "updatedAt"
  | "paidAt"
  | "exception"
  | "tag"
  | "settledBy"
  | "refundedUnits"
  | "reference"
  | "successUrl"
  | "cancelUrl"
  | "isReusable"
  | "maxPayments"
  | "minUnits"
  | "maxUnits"
  | "parentId"
> &
  Pick<User, "displayName" | "email" | "claimPolicy" | "matchByAmount"> &
  Pick<MerchantPage, "sealedReturnSecret" | "accent" | "logoDigest"> & {
    /** Origins of shops that may show its page. */
    frameOrigins: readonly string[];
    /** Of a reusable link: no place is left. */
    isUsedUp: boolean;
    /** Only claims hold it. */
    isFree: boolean;
    /** One of its payments ended while no node responded. */
    isUncertain: boolean;
    /** The transfer that pays it or is about to, if it is in a block. */
    payingTxHash: Hex | null;
    payingFrom: Hex | null;
    /** Blocks from the transfer's own to the last one that was read, both included. */
    payingDepth: number | null;
    /** The newest block that the ledger has read; 0 before the first. */
    ledgerBlock: number;
    /** The database's clock, which expires links. */
    now: Date;
  };

/** The public data of a link, and what its merchant's name derives from. */
export async function findPublicLink(tx: Tx, id: string): Promise<PublicLink | undefined> {
  const [row] = await tx<PublicLink[]>`
    select
      ${columns(tx)}, users.display_name, users.email, users.claim_policy, users.match_by_amount,
      merchant_page.sealed_return_secret, merchant_page.accent, merchant_page.logo_digest,
      coalesce(merchant_page.frame_origins, '{}') as frame_origins, ${isUsedUp(tx)} as is_used_up,
      ${restsOnClaims(tx, "link")} as is_free,
      coalesce((select number from cursors where cursors.network = link.network), 0)::float8 as ledger_block,
      ${countUnknownOutcomes(tx, "link.id")} > 0 as is_uncertain,
      paying.tx_hash as paying_tx_hash, paying.from_address as paying_from, paying.depth as paying_depth, now() as now
    from payment_links link
    join users on users.id = link.user_id
    left join merchant_pages merchant_page on merchant_page.user_id = link.user_id
    left join lateral (
      select
        transfers.tx_hash, transfers.from_address,
        greatest(cursors.number - transfers.block_number + 1, 1)::int as depth
      from transfers
      join cursors on cursors.network = transfers.network
      where transfers.link_id = link.id and transfers.pays and transfers.status <> 'ORPHANED'
    ) paying on true
    where link.id = ${id}`;
  return row;
}

export type LinkPage = (PaymentLink & { createdAtMicros: bigint })[];

export type LinkFilter = {
  userId: string;
  status?: LinkStatus | undefined;
  reference?: string | undefined;
  /** As stored: in lower case. */
  customerEmail?: string | undefined;
};

export function isByOrder({ reference, customerEmail }: LinkFilter): boolean {
  return reference !== undefined || customerEmail !== undefined;
}

/** At most `limit` links of a user after a position, newest first. */
export async function listLinks(
  tx: Tx,
  filter: LinkFilter,
  page: { after?: LinkPosition | undefined; limit: number },
): Promise<LinkPage> {
  if (isByOrder(filter)) return listByOrder(tx, filter, page);
  const after = page.after
    ? tx`and (created_at, id) < (to_timestamp_micros(${page.after.createdAtMicros}::bigint), ${page.after.id}::text)`
    : tx``;
  const scan = (condition: ReturnType<typeof tx>) => tx`
    select ${columns(tx)}, timestamp_micros(created_at) as created_at_micros
    from payment_links link
    where owner_key(user_id) = owner_key(${filter.userId}) and parent_id is null ${condition} ${after}
    order by created_at desc, id desc
    limit ${page.limit}`;
  const { status } = filter;
  switch (status) {
    case undefined:
      return tx<LinkPage>`
        select *
        from (
          (${scan(tx`and stage = 'OPEN'`)})
          union all
          (${scan(tx`and stage = 'PAID'`)})
          union all
          (${scan(tx`and stage = 'EXPIRED'`)})
          union all
          (${scan(tx`and stage = 'CANCELLED'`)})
        ) every_stage
        order by created_at_micros desc, id desc
        limit ${page.limit}`;
    case "ACTIVE":
      return tx<LinkPage>`${scan(tx`and stage = 'OPEN' and status = 'ACTIVE' and expires_at > now()`)}`;
    case "PENDING":
      return tx<LinkPage>`${scan(tx`and stage = 'OPEN' and status = 'PENDING'`)}`;
    case "EXPIRED":
      // an ordered scan of links marked EXPIRED, merged with those past their expiry but not marked yet, found by an index on the expiry
      return tx<LinkPage>`
        with lapsed as materialized (
          select ${columns(tx)}, timestamp_micros(created_at) as created_at_micros
          from payment_links link
          where ${hasLapsed(tx)} and user_id = ${filter.userId} and status = 'ACTIVE' and parent_id is null ${after}
        )
        select *
        from ((${scan(tx`and stage = 'EXPIRED'`)}) union all (select * from lapsed)) both_kinds
        order by created_at_micros desc, id desc
        limit ${page.limit}`;
    case "PAID":
    case "CANCELLED":
      return tx<LinkPage>`${scan(tx`and stage = ${status}`)}`;
    default:
      return unreachable(status);
  }
}

function orderCondition(tx: Tx, { reference, customerEmail }: LinkFilter) {
  const ofReference = reference === undefined ? tx`` : tx`and reference = ${reference}`;
  const ofCustomer = customerEmail === undefined ? tx`` : tx`and customer_email = ${customerEmail}`;
  return tx`${ofReference} ${ofCustomer}`;
}

/** An index on the reference or the customer finds the links, which are few; their status is read from them. */
async function listByOrder(
  tx: Tx,
  filter: LinkFilter,
  page: { after?: LinkPosition | undefined; limit: number },
): Promise<LinkPage> {
  const { after } = page;
  const { userId, status } = filter;
  return tx<LinkPage>`
    select *
    from (
      select ${columns(tx)}, timestamp_micros(created_at) as created_at_micros
      from payment_links link
      where user_id = ${userId}
        ${orderCondition(tx, filter)}
        and parent_id is null
        ${after ? tx`and (created_at, id) < (to_timestamp_micros(${after.createdAtMicros}::bigint), ${after.id}::text)` : tx``}
    ) of_order
    ${status === undefined ? tx`` : tx`where status = ${status}`}
    order by created_at desc, id desc
    limit ${page.limit}`;
}

/** Links of a reference or a customer by effective status. */
export async function countByOrder(tx: Tx, filter: LinkFilter): Promise<number> {
  const { userId, status } = filter;
  const [row] = await tx<{ count: number }[]>`
    select count(*)::int as count
    from (
      select ${columns(tx)}
      from payment_links link
      where user_id = ${userId} ${orderCondition(tx, filter)} and parent_id is null
    ) of_order
    ${status === undefined ? tx`` : tx`where status = ${status}`}`;
  return row?.count ?? 0;
}

export type LinkCounts = Record<LinkStatus, number> & {
  all: number;
  paidUnits: bigint;
  refundedUnits: bigint;
};

/** Counts by effective status and sums of a user's links, from counters: constant cost. */
export async function countLinks(tx: Tx, userId: string): Promise<LinkCounts> {
  const rows = await tx<{ status: LinkStatus; count: bigint; amountUnits: bigint; refundedUnits: bigint }[]>`
    select status, sum(count) as count, sum(amount_units) as amount_units, sum(refunded_units) as refunded_units
    from (
      select status, count, amount_units, refunded_units from link_counts where user_id = ${userId}
      union all
      select status, count, amount_units, refunded_units from link_count_changes
      where user_id = ${userId} and owner_key(user_id) = owner_key(${userId})
      union all
      select moved.status, moved.sign * lapsed.count, 0, 0
      from (
        select count(*) as count
        from payment_links
        where ${hasLapsed(tx)} and user_id = ${userId} and status = 'ACTIVE' and parent_id is null
      ) lapsed
      cross join (values ('ACTIVE', -1), ('EXPIRED', 1)) as moved (status, sign)
    ) parts
    group by status`;
  const counts: LinkCounts = {
    ACTIVE: 0,
    PENDING: 0,
    PAID: 0,
    EXPIRED: 0,
    CANCELLED: 0,
    all: 0,
    paidUnits: 0n,
    refundedUnits: 0n,
  };
  for (const row of rows) {
    counts[row.status] = Number(row.count);
    counts.all += Number(row.count);
    counts.refundedUnits += row.refundedUnits;
    if (row.status === "PAID") counts.paidUnits = row.amountUnits;
  }
  return counts;
}

/**
 * ACTIVE -> CANCELLED before its expiry, and PENDING -> CANCELLED while that rests on claims alone. Undefined when it is not
 * the user's, a payment or transfer holds it, or it has ended. Locked first, to see what previous lock holders committed.
 */
export async function cancelLink(
  tx: Tx,
  { id, userId }: { id: string; userId: string },
): Promise<PaymentLink | undefined> {
  await tx`
    select id
    from payment_links
    where id = ${id} and user_id = ${userId}
    for update`;
  const [row] = await tx<PaymentLink[]>`
    update payment_links link
    set status = 'CANCELLED', updated_at = now()
    where id = ${id}
      and user_id = ${userId}
      and status in ('ACTIVE', 'PENDING')
      and expires_at > now()
      and (status = 'ACTIVE' or ${restsOnClaims(tx, "link")})
    returning ${columnsOf(tx, paymentLinks)}`;
  return row;
}

/** All columns, with the effective status (effectiveStatus of core/domain/link-expiry.ts) by the database's clock. */
export function columns(tx: Tx) {
  return tx`
    link.id, link.user_id, link.network, link.recipient, link.amount_units, link.description,
    case when link.status = 'ACTIVE' and link.expires_at <= now() then 'EXPIRED' else link.status end as status,
    link.exception, link.refunded_units, link.expires_at, link.paid_at, link.created_at, link.updated_at, link.tag,
    link.pay_amount_units, link.created_block, link.settled_by, link.reference, link.unique_reference, link.metadata,
    link.customer_email, link.success_url, link.cancel_url, link.is_reusable, link.max_payments, link.min_units, link.max_units,
    link.parent_id, link.is_discoverable`;
}
