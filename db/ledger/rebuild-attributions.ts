/**
 * Keeps attributions across a rebuild. Which link a transfer paid depended on what was known when its block was read, and users were
 * given the result: an attribution is kept when the transfer and its history row agree on it and it is still possible.
 */

import type { LogPlace } from "../../core/domain/ledger-snapshot.ts";
import { type Hex, NETWORKS, type NetworkId } from "../../core/domain/networks.ts";
import type { SettledBy } from "../../core/domain/settled-by.ts";
import type { Tx } from "../postgres/client.ts";

/** A link with the position of the transfer that pays it. */
export type TakenLink = LogPlace & { linkId: string };

export type PastDecision = {
  blockHash: Hex;
  logIndex: number;
  /** Null: received without a link. */
  linkId: string | null;
  pays: boolean;
  settledBy: SettledBy | null;
  candidates: string[] | null;
  paymentId: string | null;
  settlesPayment: boolean;
  claimId: string | null;
};

/** Older releases did not record the evidence; it is derived from the rows. Call before they are compared. */
export async function nameOldDecisions(tx: Tx, network: NetworkId): Promise<void> {
  await tx`
    with named as (
      update transfers transfer
      set settled_by = case
        when transfer.payment_id is not null then 'authorization'
        when history.claim_id is not null then 'early_claim'
        else 'amount'
      end
      from transactions history
      where transfer.network = ${network}
        and transfer.status <> 'ORPHANED'
        and transfer.link_id is not null
        and transfer.settled_by is null
        and history.transfer_id = transfer.id
        and history.type <> 'SEND'
      returning transfer.id, transfer.link_id, transfer.pays, transfer.amount_units, transfer.settled_by
    ),
    history as (
      update transactions
      set settled_by = named.settled_by
      from named
      where transactions.transfer_id = named.id and transactions.type <> 'SEND'
    )
    update payment_links
    set settled_by = named.settled_by, paid_units = case when status = 'PAID' then named.amount_units end
    from named
    where payment_links.id = named.link_id and named.pays`;
}

/** Stores the attributions to keep, until the transaction ends. */
export async function keepDecisions(tx: Tx, network: NetworkId): Promise<void> {
  await tx`
    create temporary table past_decisions on commit drop as
    select
      transfer.block_number, transfer.block_hash, transfer.log_index, transfer.to_address, transfer.link_id, transfer.pays, transfer.settled_by, transfer.candidates, transfer.payment_id, history.claim_id,
      coalesce(payment.state <> 'FAILED', false) as settles_payment,
      link.amount_units::numeric as link_units, link.pay_amount_units::numeric as link_pay_units
    from transfers transfer
    join transactions history on history.transfer_id = transfer.id and history.type <> 'SEND'
    left join payment_links link on link.id = transfer.link_id
    left join payments payment on payment.id = transfer.payment_id
    where transfer.network = ${network}
      and transfer.status <> 'ORPHANED'
      and history.link_id is not distinct from transfer.link_id
      and (history.type = 'PAYMENT_LINK') = transfer.pays
      and (
        link.id is null
        or (link.network, link.recipient) = (transfer.network, transfer.to_address)
        and (
          transfer.amount_units in (link.amount_units, link.pay_amount_units)
          or transfer.settled_by = 'merchant'
          or not transfer.pays
        )
      )
      and (
        payment.id is null
        or (payment.link_id, payment.payer, payment.nonce)
          = (transfer.link_id, transfer.from_address, transfer.authorization_nonce)
        and case
          when payment.state = 'FAILED' then not transfer.pays
          else (payment.tx_hash, payment.log_index) is not distinct from (transfer.tx_hash, transfer.log_index)
        end
      )
      and not exists (
        select from payments other
        where other.network = transfer.network
          and other.token = ${NETWORKS[network].usdc.address}
          and other.payer = transfer.from_address
          and other.nonce = transfer.authorization_nonce
          and authorization_digest(other.network, other.token, other.payer, other.nonce) = authorization_digest(
            transfer.network, ${NETWORKS[network].usdc.address}, transfer.from_address, transfer.authorization_nonce
          )
          and other.link_id is not null
          and other.state <> 'FAILED'
          and other.id is distinct from transfer.payment_id
      )`;
  await tx`
    create temporary table past_claims on commit drop as
    select id
    from claims
    where network = ${network} and state = 'MATCHED'`;
  await tx`create index on past_decisions (block_number)`;
  await tx`create index on past_decisions (to_address, link_units) where pays`;
  await tx`create index on past_decisions (to_address, link_pay_units) where pays`;
  await tx`create index on past_decisions (link_id) where pays`;
  await tx`analyze past_decisions`;
}

/** Matched claims whose transfer is still attributed to their link are matched again: the history does not name all of them. */
export async function matchPastClaims(tx: Tx): Promise<void> {
  await tx`
    update claims
    set state = 'MATCHED', reason = null
    from past_claims
    where claims.id = past_claims.id
      and claims.state = 'OPEN'
      and exists (
        select from (select network, status, from_address, link_id from transfers where tx_hash = bytes_of(claims.tx_hash) offset 0) booked
        where booked.network = claims.network
          and booked.from_address = bytes_of(claims.client_address)
          and booked.link_id = claims.link_id
          and booked.status <> 'ORPHANED'
      )`;
}

export async function findDecisions(
  tx: Tx,
  { from, to }: { from: number; to: number },
): Promise<PastDecision[]> {
  return tx<PastDecision[]>`
    select block_hash, log_index, link_id, pays, settled_by, candidates, payment_id, settles_payment, claim_id
    from past_decisions
    where block_number between ${from}::bigint and ${to}::bigint`;
}

/**
 * Links that one of these transfers could pay, and that a transfer with a kept attribution pays, anywhere in the chain. The latter may
 * be of another amount: a link has two amounts, and its merchant may have accepted a third.
 */
export async function findDecidedLinks(
  tx: Tx,
  network: NetworkId,
  transfers: readonly { txHash: Hex; to: Hex; amountUnits: bigint }[],
): Promise<TakenLink[]> {
  const rows = await tx<{ linkId: string; blockNumber: bigint; logIndex: number }[]>`
    with given as (
      select *
      from unnest(
        ${transfers.map(({ txHash }) => txHash)}::text[],
        ${transfers.map(({ to }) => to)}::bytea[],
        ${transfers.map(({ amountUnits }) => amountUnits.toString())}::numeric[]
      ) as given (tx_hash, recipient, units)
    )
    select link_id, block_number, log_index
    from past_decisions
    where pays
      and (
        (to_address, link_units) in (select recipient, units from given)
        or (to_address, link_pay_units) in (select recipient, units from given)
        or link_id in (
          select assignments.link_id
          from given
          join assignments on assignments.network = ${network} and assignments.tx_hash = given.tx_hash
        )
      )`;
  return rows.map((row) => ({ ...row, blockNumber: Number(row.blockNumber) }));
}

/** Which of these tags name links of the network, with the wallets they pay into. */
export async function findTaggedWallets(
  tx: Tx,
  network: NetworkId,
  tags: readonly Hex[],
): Promise<{ tag: Hex; recipient: Hex }[]> {
  if (tags.length === 0) return [];
  return tx<{ tag: Hex; recipient: Hex }[]>`
    select tag, recipient
    from payment_links
    where tag = any(${[...tags]}::bytea[]) and network = ${network}`;
}
