/** Loads the ledger snapshot for attribution: payments, claims, links and assignments, locked until the transaction ends. */

import { CANDIDATES_MAX } from "../../core/domain/attribute-transfers.ts";
import type { AuthorizationKey } from "../../core/domain/authorization.ts";
import type {
  AcceptanceFacts,
  AssignmentFacts,
  AttributableTransfer,
  ClaimFacts,
  LedgerSnapshot,
  LinkFacts,
  PaymentFacts,
} from "../../core/domain/ledger-snapshot.ts";
import { tagOfNonce } from "../../core/domain/link-tag.ts";
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import { lockLinks } from "../links/lock-links.ts";
import { type AcceptanceRow, acceptanceColumns, toAcceptance } from "../payments/acceptance-facts.ts";
import { idsByAuthorization } from "../payments/ids-by-authorization.ts";
import type { Tx } from "../postgres/client.ts";
import type { TakenLink } from "./rebuild-attributions.ts";
import { findFirstVerdicts } from "./reincluded-transfers.ts";

/** Links' payments of these authorizations, locked in a fixed order. Payments are locked before links everywhere. */
export async function loadPayments(
  tx: Tx,
  network: NetworkId,
  authorizations: readonly AuthorizationKey[],
): Promise<PaymentFacts[]> {
  if (authorizations.length === 0) return [];
  return readPayments(tx, network, authorizations, { locks: true });
}

/** The same without locks. */
export async function findPayments(
  sql: Tx,
  network: NetworkId,
  authorizations: readonly AuthorizationKey[],
): Promise<PaymentFacts[]> {
  if (authorizations.length === 0) return [];
  return readPayments(sql, network, authorizations, { locks: false });
}

async function readPayments(
  tx: Tx,
  network: NetworkId,
  authorizations: readonly AuthorizationKey[],
  { locks }: { locks: boolean },
): Promise<PaymentFacts[]> {
  const rows = await tx<PaymentRow[]>`
    select
      payments.id, link_id, payer, nonce, recipient, amount_units, state = 'FAILED' as is_failed,
      ${acceptanceColumns(tx, { network, txHashes: authorizations.flatMap(({ txHash }) => txHash ?? []) })},
      exists (
        select from transfers before
        where before.authorization_nonce = payments.nonce and before.payment_id = payments.id
        offset 0
      ) as was_settled
    from payments
    where id = any(array(
        ${idsByAuthorization(tx, { network }, authorizations)}
      ))
      and link_id is not null
    order by payments.id
    ${locks ? tx`for update of payments` : tx``}`;
  return rows.map(toAcceptance);
}

type PaymentRow = Omit<PaymentFacts, keyof AcceptanceFacts> & AcceptanceRow;

type Judged = {
  /** All of them to our wallets, in chain order. */
  transfers: readonly AttributableTransfer[];
  payments: readonly PaymentFacts[];
  /** Links that count as paid in addition to those that a transfer pays. */
  takenLinks?: readonly TakenLink[];
  /**
   * Links that the caller changes whatever is attributed to them. Locking them later, while holding the links of this
   * snapshot, could deadlock with a transaction that locks both in order (an API's group of payments, a contested claim).
   */
  lockedToo?: readonly string[];
};

/** Everything these transfers could settle. */
export async function loadSnapshot(tx: Tx, network: NetworkId, judged: Judged): Promise<LedgerSnapshot> {
  const { payments, takenLinks = [], lockedToo = [] } = judged;
  const taken = new Map(takenLinks.map(({ linkId, ...paidAt }) => [linkId, paidAt]));
  const { claims, evidence, firstVerdicts, linkIds } = await findNamedLinks(tx, network, judged);
  const facts = await lockLinkFacts(tx, linkIds, lockedToo);
  const links = facts.map((link) => ({
    ...link,
    isTaken: link.isTaken || taken.has(link.id),
    paidAt: link.paidAt ?? taken.get(link.id),
  }));
  return { links, payments, claims, assignments: evidence.assignments, firstVerdicts };
}

/** Locks the links that a snapshot of these transfers would, together with `lockedToo`: for a caller that changes what the snapshot will show. */
export async function lockJudged(tx: Tx, network: NetworkId, judged: Judged): Promise<void> {
  const { linkIds } = await findNamedLinks(tx, network, judged);
  await lockLinks(tx, [...linkIds, ...(judged.lockedToo ?? [])]);
}

/** What may decide about these transfers, with all links that it names. */
async function findNamedLinks(tx: Tx, network: NetworkId, { transfers, payments, takenLinks = [] }: Judged) {
  const known = new Set(payments.map(settlingKey));
  const taken = takenLinks.map(({ linkId }) => linkId);
  // a transfer that executes an accepted payment's authorization needs no further evidence, unless it was accepted too late
  const open = transfers.filter(
    ({ from, to, txHash, authorizationNonce: nonce, amountUnits }) =>
      nonce === undefined ||
      !known.has(settlingKey({ payer: from, nonce, recipient: to, amountUnits })) ||
      !payments.some((payment) => payment.nonce === nonce && payment.relayHashes.includes(txHash)),
  );
  const [claims, evidence, firstVerdicts] =
    open.length === 0
      ? [[], { linkIds: [], assignments: [] }, []]
      : await Promise.all([
          loadClaims(tx, network, open),
          findEvidence(tx, network, open, { all: transfers, takenLinkIds: taken }),
          findFirstVerdicts(tx, network, transfers),
        ]);
  const linkIds = new Set(
    [...payments, ...claims, ...firstVerdicts]
      .flatMap((row) => row.linkId ?? [])
      .concat(evidence.linkIds, taken),
  );
  return { claims, evidence, firstVerdicts, linkIds: [...linkIds] };
}

function settlingKey(one: Pick<PaymentFacts, "payer" | "nonce" | "recipient" | "amountUnits">): string {
  return [one.payer, one.nonce, one.recipient, one.amountUnits].join(":");
}

/** A MATCHED claim already has its transfer: it does not apply to another log of the same transaction. */
export async function loadClaims(
  tx: Tx,
  network: NetworkId,
  transfers: readonly AttributableTransfer[],
): Promise<ClaimFacts[]> {
  return tx<ClaimFacts[]>`
    select
      id, link_id, tx_hash, client_address, proof is not null as is_proven,
      state <> 'HINT' and is_early and not exists (
        select from claims rival
        where rival.network = claim.network
          and rival.tx_hash = claim.tx_hash
          and rival.state <> 'REJECTED'
          and rival.link_id <> claim.link_id
      ) as is_early
    from claims claim
    where network = ${network}
      and tx_hash = any(${[...new Set(transfers.map((transfer) => transfer.txHash))]}::text[])
      and state <> 'REJECTED'
      and state <> 'MATCHED'
    order by created_at, id`;
}

/** Links named by tags, assignments or the amount, and the assignments. */
async function findEvidence(
  tx: Tx,
  network: NetworkId,
  open: readonly AttributableTransfer[],
  scope: { all: readonly AttributableTransfer[]; takenLinkIds: readonly string[] },
): Promise<{ linkIds: string[]; assignments: AssignmentFacts[] }> {
  const [fitting, tagged, assignments] = await Promise.all([
    findFittingLinks(tx, network, open, scope),
    findTaggedLinks(tx, network, open),
    findAssignments(tx, network, open),
  ]);
  return {
    linkIds: [...fitting, ...tagged, ...assignments.flatMap(({ linkId }) => linkId ?? [])],
    assignments,
  };
}

export async function findTaggedLinks(
  tx: Tx,
  network: NetworkId,
  transfers: readonly AttributableTransfer[],
): Promise<string[]> {
  const tags = transfers.flatMap(({ tag, authorizationNonce }) => [
    ...(tag ? [tag] : []),
    ...(authorizationNonce ? [tagOfNonce(authorizationNonce)] : []),
  ]);
  if (tags.length === 0) return [];
  const rows = await tx<{ id: string }[]>`
    select id
    from payment_links
    where tag = any(${tags}::bytea[]) and network = ${network}`;
  return rows.map(({ id }) => id);
}

/** An assignment whose transfer was orphaned does not apply to another transfer at its place (reorganised-assignments.ts). */
async function findAssignments(
  tx: Tx,
  network: NetworkId,
  transfers: readonly AttributableTransfer[],
): Promise<AssignmentFacts[]> {
  const rows = await tx<(Omit<AssignmentFacts, "linkId"> & { linkId: string | null })[]>`
    select tx_hash, log_index, link_id, accept
    from assignments
    where network = ${network}
      and tx_hash = any(${[...new Set(transfers.map(({ txHash }) => txHash))]}::text[])
      and orphaned_transfer_id is null`;
  return rows.map((row) => ({ ...row, linkId: row.linkId ?? undefined }));
}

/**
 * Unpaid links that ask for a transfer's value at its recipient: open at its block, or expired by then. Of either, at most
 * as many as `all` transfers of this value together could use up, plus enough to show as candidates.
 */
export async function findFittingLinks(
  tx: Tx,
  network: NetworkId,
  transfers: readonly AttributableTransfer[],
  { all, takenLinkIds }: { all: readonly AttributableTransfer[]; takenLinkIds: readonly string[] },
): Promise<string[]> {
  if (transfers.length === 0) return [];
  const rivals = countBy(all, (transfer) => `${transfer.to}:${transfer.amountUnits}`);
  const rows = await tx<{ id: string }[]>`
    with given as (
      select distinct recipient, amount_units, block_number, to_timestamp(block_time) as block_time, rivals
      from unnest(
        ${transfers.map((transfer) => transfer.to)}::bytea[],
        ${transfers.map((transfer) => transfer.amountUnits.toString())}::numeric[],
        ${transfers.map((transfer) => transfer.blockNumber)}::bigint[],
        ${transfers.map((transfer) => transfer.blockTimeMs / 1000)}::float8[],
        ${transfers.map((transfer) => rivals.get(`${transfer.to}:${transfer.amountUnits}`) ?? 1)}::int[]
      ) as row (recipient, amount_units, block_number, block_time, rivals)
      where amount_units <= 9223372036854775807
    ),
    moments as (
      select recipient, amount_units::bigint as amount_units, block_number, block_time, rivals
      from given
      where exists (
        select from payment_links link
        where link.network = ${network}
          and link.recipient = given.recipient
          and address_key(link.recipient) = address_key(given.recipient)
          and link.amount_units = given.amount_units::bigint
          and link.is_unpaid
      )
      or exists (
        select from payment_links link
        where link.network = ${network}
          and link.recipient = given.recipient
          and address_key(link.recipient) = address_key(given.recipient)
          and link.pay_amount_units = given.amount_units::bigint
          and link.is_unpaid
      )
    )
    select distinct found.id
    from moments
    cross join lateral (
      (${fits(tx, network, "amount_units", takenLinkIds)} and ${isOpenThen(tx)} limit moments.rivals + ${CANDIDATES_MAX})
      union all
      (${fits(tx, network, "amount_units", takenLinkIds)} and ${wasOverThen(tx)} limit moments.rivals + ${CANDIDATES_MAX})
      union all
      (${fits(tx, network, "pay_amount_units", takenLinkIds)} and ${isOpenThen(tx)} limit moments.rivals + ${CANDIDATES_MAX})
      union all
      (${fits(tx, network, "pay_amount_units", takenLinkIds)} and ${wasOverThen(tx)} limit moments.rivals + ${CANDIDATES_MAX})
      union all
      (${fitsPaidLater(tx, network)})
    ) found`;
  return rows.map((row) => row.id);
}

function isOpenThen(tx: Tx) {
  return tx`
    link.expires_at >= moments.block_time
    and (link.cancelled_at is null or link.cancelled_at > moments.block_time)
    and coalesce(
      link.created_block < moments.block_number,
      link.created_at < moments.block_time + interval '1 second'
    )`;
}

function wasOverThen(tx: Tx) {
  return tx`link.expires_at < moments.block_time and link.cancelled_at is null`;
}

function fits(
  tx: Tx,
  network: NetworkId,
  column: "amount_units" | "pay_amount_units",
  takenLinkIds: readonly string[],
) {
  return tx`
    select link.id
    from payment_links link
    where link.network = ${network}
      and link.recipient = moments.recipient
      and address_key(link.recipient) = address_key(moments.recipient)
      and link.${tx(column)} = moments.amount_units
      and link.is_unpaid
      ${column === "amount_units" ? tx`and not link.is_addressed` : tx``}
      and link.id <> all(${[...takenLinkIds]}::text[])
      and not exists (
        select from transfers
        where transfers.link_id = link.id and transfers.pays and transfers.status <> 'ORPHANED'
      )`;
}

/** Links paid by a transfer from this block on, which a backdated transfer could have paid. At the head there are none. */
function fitsPaidLater(tx: Tx, network: NetworkId) {
  return tx`
    select link.id
    from transfers paying
    join payment_links link on link.id = paying.link_id
    where paying.network = ${network}
      and paying.to_address = moments.recipient
      and address_key(paying.to_address) = address_key(moments.recipient)
      and paying.block_number >= moments.block_number
      and paying.pays
      and paying.status <> 'ORPHANED'
      and moments.amount_units in (link.amount_units, link.pay_amount_units)
      and (${isOpenThen(tx)} or ${wasOverThen(tx)})
    order by paying.block_number desc
    limit ${CANDIDATES_MAX}`;
}

function countBy<Item>(items: readonly Item[], keyOf: (item: Item) => string): Map<string, number> {
  const counts = new Map<string, number>();
  for (const item of items) counts.set(keyOf(item), (counts.get(keyOf(item)) ?? 0) + 1);
  return counts;
}

/** The facts of `linkIds`; locks `lockedToo` with them. */
async function lockLinkFacts(
  tx: Tx,
  linkIds: readonly string[],
  lockedToo: readonly string[],
): Promise<LinkFacts[]> {
  if (linkIds.length === 0) return [];
  // a new snapshot, to see what was committed while we waited for the locks
  const [, rows] = await Promise.all([lockLinks(tx, [...linkIds, ...lockedToo]), readLinkFacts(tx, linkIds)]);
  return rows.map(({ createdAt, createdBlock, expiresAt, cancelledAt, paidBlock, paidLog, ...link }) => ({
    ...link,
    paidAt:
      paidBlock === null || paidLog === null
        ? undefined
        : { blockNumber: Number(paidBlock), logIndex: paidLog },
    tag: link.tag ?? undefined,
    payAmountUnits: link.payAmountUnits ?? undefined,
    createdAtMs: createdAt.getTime(),
    createdBlock: createdBlock === null ? undefined : Number(createdBlock),
    expiresAtMs: expiresAt.getTime(),
    cancelledAtMs: cancelledAt?.getTime(),
    livePaymentId: link.livePaymentId ?? undefined,
  }));
}

type LinkRow = Pick<
  LinkFacts,
  "id" | "recipient" | "amountUnits" | "isTaken" | "matchByAmount" | "trustsEarlyClaims" | "isAddressed"
> & {
  tag: Hex | null;
  payAmountUnits: bigint | null;
  createdAt: Date;
  createdBlock: bigint | null;
  expiresAt: Date;
  cancelledAt: Date | null;
  paidBlock: bigint | null;
  paidLog: number | null;
  livePaymentId: string | null;
};

function readLinkFacts(tx: Tx, linkIds: readonly string[]): Promise<LinkRow[]> {
  return tx<LinkRow[]>`
    select
      link.id, link.recipient, link.tag, link.amount_units, link.pay_amount_units, link.created_at, link.created_block,
      link.expires_at, link.cancelled_at, paying.id is not null as is_taken,
      paying.block_number as paid_block, paying.log_index as paid_log, payment.id as live_payment_id,
      merchant.match_by_amount, merchant.claim_policy = 'early' as trusts_early_claims, link.is_addressed
    from payment_links link
    join users merchant on merchant.id = link.user_id
    left join lateral (
      select id, block_number, log_index
      from transfers
      where transfers.link_id = link.id and transfers.pays and transfers.status <> 'ORPHANED'
      limit 1
    ) paying on true
    left join lateral (
      select id
      from payments
      where payments.link_id = link.id and payments.is_live
      limit 1
    ) payment on true
    where link.id = any(${[...linkIds]}::text[])`;
}
