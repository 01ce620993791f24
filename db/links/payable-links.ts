/** Reads what a payer needs of a link: terms, status, and the payment that already holds it. */

import { type Hex, NETWORKS, type NetworkId } from "../../core/domain/networks.ts";
import type { PayableLink } from "../../core/domain/payment-acceptance.ts";
import type { Tx } from "../postgres/client.ts";
import { isUsedUp } from "./max-uses.ts";

/**
 * `nonceTag`: the half of the presented authorization's nonce that may name a link (core/domain/link-tag.ts). `shown`: that authorization,
 * in the network its payer named.
 */
export type AskedLink = {
  id: string;
  nonceTag?: Hex | undefined;
  shown?: { network: NetworkId; payer: Hex; nonce: Hex } | undefined;
};

/** In the order of the request; undefined when there is no such link. */
export async function findPayableLinks(
  sql: Tx,
  asked: readonly AskedLink[],
): Promise<(PayableLink | undefined)[]> {
  const rows = await sql<(PayableLink & { place: number })[]>`
    select asked.place::int, found.*
    from unnest(
      ${asked.map(({ id }) => id)}::text[], ${asked.map(({ nonceTag }) => nonceTag ?? null)}::bytea[],
      ${asked.map(({ shown }) => shown?.network ?? null)}::text[],
      ${asked.map(({ shown }) => (shown ? NETWORKS[shown.network].usdc.address : null))}::bytea[],
      ${asked.map(({ shown }) => shown?.payer ?? null)}::bytea[], ${asked.map(({ shown }) => shown?.nonce ?? null)}::bytea[]
    ) with ordinality as asked (id, nonce_tag, network, token, payer, nonce, place)
    cross join lateral (${selectPayable(sql)}) found`;
  const links = new Map(rows.map(({ place, ...link }) => [place, link]));
  return asked.map((_, index) => links.get(index + 1));
}

/** Whether a link has this tag (core/domain/link-tag.ts). */
export async function isLinkTag(sql: Tx, tag: Hex): Promise<boolean> {
  const rows = await sql`
    select from payment_links
    where tag = ${tag}::bytea`;
  return rows.length > 0;
}

/** SQL: the link of `asked`. One at a time, whatever the size of the tables was when this was planned. */
function selectPayable(sql: Tx) {
  return sql`
    select
      link.id, link.network, link.recipient, link.amount_units, link.description, link.status, link.expires_at,
      payment.id as payment_id, payment.payer, payment.nonce,
      payment.payer_kind, payment.signature, payment.valid_after, payment.valid_before, payment.idempotency_key,
      paying.tx_hash as paid_tx_hash, paying.log_index as paid_log_index,
      paying.from_address as paid_from, paying.authorization_nonce as paid_nonce,
      (select id from payment_links where tag = asked.nonce_tag) as tagged_link_id,
      case when shown.link_id = link.id then 'HERE' when shown.id is not null then 'ELSEWHERE' end as accepted_before,
      exists (
        select from transfers
        where transfers.network = asked.network
          and transfers.from_address = asked.payer
          and transfers.authorization_nonce = asked.nonce
          and transfers.status <> 'ORPHANED'
      ) as is_executed,
      coalesce(budget.used, 0)::numeric(78, 0) as relay_gas_used, merchant.relay_gas_per_day as relay_gas_own_maximum,
      (select head_time from cursors where network = link.network) as chain_time,
      link.is_reusable, link.min_units, link.max_units, link.is_discoverable,
      ${isUsedUp(sql)} as is_used_up
    from payment_links link
    join users merchant on merchant.id = link.user_id
    left join relay_budgets budget
      on budget.network = link.network
      and budget.scope = 'MERCHANT'
      and budget.subject = link.user_id
      and budget.day = (now() at time zone 'utc')::date
    left join payments payment on payment.link_id = link.id and payment.is_live
    left join lateral (
      select id, link_id
      from payments
      where network = asked.network
        and token = asked.token
        and payer = asked.payer
        and nonce = asked.nonce
        and authorization_digest(network, token, payer, nonce)
          = authorization_digest(asked.network, asked.token, asked.payer, asked.nonce)
      limit 1
    ) shown on true
    left join lateral (
      select pays, tx_hash, log_index, from_address, authorization_nonce, block_number
      from transfers
      where transfers.link_id = link.id and transfers.pays and transfers.status <> 'ORPHANED'
      union all
      select pays, tx_hash, log_index, from_address, authorization_nonce, block_number
      from transfers
      where transfers.link_id = link.id
        and not transfers.pays
        and transfers.status <> 'ORPHANED'
        and transfers.amount_units in (link.amount_units, link.pay_amount_units)
        and link.status = 'PENDING'
        and payment.id is null
      order by pays desc, block_number, log_index
      limit 1
    ) paying on true
    where link.id = asked.id
    limit 1`;
}

/** Time of the newest block the indexer has seen on a network. */
export async function findChainTime(sql: Tx, network: NetworkId): Promise<Date | null> {
  const [row] = await sql<{ headTime: Date | null }[]>`
    select head_time
    from cursors
    where network = ${network}`;
  return row?.headTime ?? null;
}
