/** Claims: a payer states which transaction paid a link. One that may decide holds its link PENDING for a lease; none blocks a payment. */
import type { Language } from "../../core/domain/language.ts";
import { type Hex, NETWORKS, type NetworkId } from "../../core/domain/networks.ts";
import { recordEvents } from "../events/events.ts";
import type { Tx } from "../postgres/client.ts";
import { columnsOf } from "../postgres/columns-of.ts";
import { notify } from "../postgres/notifications.ts";
import { type Claim, claims, type PaymentLink, paymentLinks } from "../schema.ts";
import { demoteContested } from "./end-claims.ts";
import { lockLinks } from "./lock-links.ts";

export type ClaimKey = Pick<Claim, "linkId" | "txHash" | "clientAddress">;

export async function findClaim(tx: Tx, key: ClaimKey): Promise<Claim | undefined> {
  const [row] = await tx<Claim[]>`
    select ${columnsOf(tx, claims)}
    from claims
    where link_id = ${key.linkId} and tx_hash = ${key.txHash} and client_address = ${key.clientAddress}`;
  return row;
}

/** An open claim with its link's terms. */
export type OpenClaim = Pick<
  Claim,
  "id" | "linkId" | "network" | "txHash" | "clientAddress" | "looks" | "createdAt"
> & {
  isLeaseOver: boolean;
  isProven: boolean;
  /** Changes when it is opened again, proven or checked by another worker. */
  updatedAtMicros: bigint;
  recipient: Hex;
  amountUnits: bigint;
  payAmountUnits: bigint | null;
  createdBlock: bigint | null;
  linkCreatedAt: Date;
  expiresAt: Date;
};

export async function findOpenClaim(tx: Tx, id: string): Promise<OpenClaim | undefined> {
  const [row] = await tx<OpenClaim[]>`
    select
      claim.id, claim.link_id, claim.network, claim.tx_hash, claim.client_address, claim.looks, claim.created_at,
      claim.lease_until <= now() as is_lease_over, claim.proof is not null as is_proven,
      timestamp_micros(claim.updated_at) as updated_at_micros,
      link.recipient, link.amount_units, link.pay_amount_units, link.created_block, link.created_at as link_created_at,
      link.expires_at
    from claims claim
    join payment_links link on link.id = claim.link_id
    where claim.id = ${id} and claim.state = 'OPEN'`;
  return row;
}

/**
 * Whether every one of these logs of a transaction already counts for another link, or executed another link's authorization. A
 * proven claim ignores attributions by inference.
 */
export async function areLogsTaken(
  tx: Tx,
  {
    linkId,
    network,
    txHash,
    payer,
    isProven,
  }: { linkId: string; network: NetworkId; txHash: Hex; payer: Hex; isProven: boolean },
  logs: readonly { logIndex: number; authorizationNonce: Hex | undefined }[],
): Promise<boolean> {
  const [row] = await tx<{ free: bigint }[]>`
    select count(*) as free
    from unnest(
      ${logs.map((log) => log.logIndex)}::int[],
      ${logs.map((log) => log.authorizationNonce ?? null)}::bytea[]
    ) as log (log_index, nonce)
    where not exists (
        select from (select network, status, from_address, log_index, link_id, settled_by from transfers where tx_hash = ${txHash} offset 0) booked
        where booked.network = ${network} and booked.log_index = log.log_index and booked.status <> 'ORPHANED'
          and booked.link_id <> ${linkId}
          and not (${isProven}::boolean and booked.settled_by in ('early_claim', 'pay_amount', 'amount'))
      )
      and not exists (
        select from payments
        where payments.network = ${network} and payments.payer = ${payer} and payments.nonce = log.nonce
          and authorization_digest(payments.network, payments.token, payments.payer, payments.nonce)
            = authorization_digest(${network}, ${NETWORKS[network].usdc.address}, ${payer}, log.nonce)
          and payments.link_id <> ${linkId}
          and payments.state <> 'FAILED'
        offset 0
      )`;
  return row?.free === 0n;
}

/** `mayHaveBlock`: a node showed the transaction in a block, or none could be asked. `proof`: how the claimant proved to be the sender. */
export type NewClaim = ClaimKey &
  Pick<Claim, "id" | "network" | "requestId" | "proof"> & {
    transactionId: string;
    leaseS: number;
    mayHaveBlock: boolean;
    /** The language of the page that the claimant saw, if known; used only for the receipt. */
    payerLanguage?: Language | null | undefined;
  };

/** `proofRequired`: stored as a hint, because another link may be meant. */
export type StoredClaim = { claim: Claim; isNew: boolean; proofRequired: boolean };

/**
 * Stores a claim, or reopens one whose lease expired. One that may decide its transfer moves the link ACTIVE -> PENDING and shows
 * the merchant a PENDING history row; others are hints. An unproven claim of another link becomes a hint and releases its link.
 * Undefined when the link is not open (any more), which a proven claim does not depend on.
 */
export async function openClaim(tx: Tx, given: NewClaim): Promise<StoredClaim | undefined> {
  // serialises the claims of one transaction, so that each sees the others
  await tx`select pg_advisory_xact_lock(hashtextextended(${given.txHash}, 0))`;
  const rivals = await findRivals(tx, given);
  await lockLinks(tx, [given.linkId, ...rivals.map(({ linkId }) => linkId)]);
  const [link] = await tx<(PaymentLink & { isOpen: boolean })[]>`
    select ${columnsOf(tx, paymentLinks)}, status = 'PENDING' or (status = 'ACTIVE' and expires_at > now()) as is_open
    from payment_links
    where id = ${given.linkId}`;
  const known = await findClaim(tx, given);
  const isProven = given.proof !== null;
  const isSettled = known?.state === "MATCHED" || known?.state === "DISPUTED";
  if (known && (isSettled || (known.state === "OPEN" && (!isProven || known.proof !== null))))
    return { claim: known, isNew: false, proofRequired: false };
  if (!link || link.isReusable || !(link.isOpen || isProven)) return undefined;
  const ledger = await readLedger(tx, link, given);
  const isEarly = !given.mayHaveBlock && !ledger.isBooked && known?.isEarly !== false;
  if (ledger.isCounted) {
    const claim = await upsertClaim(tx, { ...given, state: "MATCHED", isEarly });
    await closeHistoryRow(tx, claim.id);
    return { claim, isNew: false, proofRequired: false };
  }
  // the plain amount of a use identifies nothing, so neither does a claim without proof
  const decides =
    isProven ||
    (link.parentId === null &&
      !ledger.isAmbiguous &&
      (ledger.isAlone || (isEarly && rivals.length === 0 && ledger.trustsEarlyClaims)));
  const claim = await upsertClaim(tx, { ...given, state: decides ? "OPEN" : "HINT", isEarly });
  for (const rival of rivals)
    if (rival.state === "OPEN" && rival.proof === null) await demoteContested(tx, rival);
  if (decides && link.isOpen) {
    await openHistoryRow(tx, link, claim, given.transactionId);
    await holdLink(tx, link, claim.id);
  }
  return { claim, isNew: decides, proofRequired: !decides };
}

/** Other links' claims of the same transaction. */
function findRivals(tx: Tx, { network, txHash, linkId }: NewClaim): Promise<Claim[]> {
  return tx<Claim[]>`
    select ${columnsOf(tx, claims)}
    from claims
    where network = ${network} and tx_hash = ${txHash} and link_id <> ${linkId} and state <> 'REJECTED'
    order by id`;
}

type LedgerFacts = {
  isBooked: boolean;
  /** Received without a link. */
  isAmbiguous: boolean;
  /** Attributed to this link. */
  isCounted: boolean;
  isAlone: boolean;
  trustsEarlyClaims: boolean;
};

/** What the ledger knows about a claimed transfer, and whether other open links have the same amount. */
async function readLedger(
  tx: Tx,
  link: PaymentLink,
  { txHash, clientAddress }: NewClaim,
): Promise<LedgerFacts> {
  const [row] = await tx<LedgerFacts[]>`
    select
      exists (
        select from transfers
        where tx_hash = ${txHash} and network = ${link.network} and status <> 'ORPHANED'
      ) as is_booked,
      exists (
        select from transfers
        where tx_hash = ${txHash}
          and network = ${link.network}
          and status <> 'ORPHANED'
          and from_address = ${clientAddress}
          and to_address = ${link.recipient}
          and link_id is null
      ) as is_ambiguous,
      exists (
        select from (select network, status, from_address, log_index, link_id, settled_by from transfers where tx_hash = ${txHash} offset 0) booked
        where network = ${link.network}
          and status <> 'ORPHANED'
          and from_address = ${clientAddress}
          and link_id = ${link.id}
      ) as is_counted,
      not exists (
        select from payment_links other
        where other.network = ${link.network}
          and other.recipient = ${link.recipient}
          and address_key(other.recipient) = address_key(${link.recipient})
          and other.amount_units in (${link.amountUnits}::bigint, ${link.payAmountUnits}::bigint)
          and other.id <> ${link.id}
          and not other.is_addressed
          and other.is_unpaid
          and (other.status = 'PENDING' or other.status = 'ACTIVE' and other.expires_at > now())
      )
      and not exists (
        select from payment_links other
        where other.network = ${link.network}
          and other.recipient = ${link.recipient}
          and address_key(other.recipient) = address_key(${link.recipient})
          and other.pay_amount_units = ${link.amountUnits}::bigint
          and other.is_unpaid
          and (other.status = 'PENDING' or other.status = 'ACTIVE' and other.expires_at > now())
      ) as is_alone,
      claim_policy = 'early' as trusts_early_claims
    from users
    where id = ${link.userId}`;
  if (!row) throw new Error(`link ${link.id} has no user`);
  return row;
}

/**
 * A claim stored before the block stays early; one stored later never becomes early. Its first language stays, unless
 * a proof brings another.
 */
async function upsertClaim(
  tx: Tx,
  given: NewClaim & { state: "OPEN" | "HINT" | "MATCHED"; isEarly: boolean },
): Promise<Claim> {
  const [claim] = await tx<Claim[]>`
    insert into claims (
      id, link_id, network, tx_hash, client_address, state, lease_until, request_id, proof, is_early,
      payer_language
    )
    values (
      ${given.id}, ${given.linkId}, ${given.network}, ${given.txHash}, ${given.clientAddress}, ${given.state},
      now() + make_interval(secs => ${given.leaseS}), ${given.requestId}, ${given.proof}, ${given.isEarly},
      ${given.payerLanguage ?? null}
    )
    on conflict (link_id, tx_hash, client_address) do update
    set
      state = excluded.state, reason = null, looks = 0, lease_until = excluded.lease_until,
      request_id = excluded.request_id, proof = coalesce(excluded.proof, claims.proof),
      payer_language = case
        when excluded.proof is null then coalesce(claims.payer_language, excluded.payer_language)
        else coalesce(excluded.payer_language, claims.payer_language)
      end,
      created_at = now(), updated_at = now()
    returning ${columnsOf(tx, claims)}`;
  if (!claim) throw new Error("insert into claims returned no row");
  return claim;
}

async function openHistoryRow(tx: Tx, link: PaymentLink, claim: Claim, transactionId: string): Promise<void> {
  await tx`
    insert into transactions
      (id, owner, network, type, status, amount_units, counterparty, description, tx_hash, link_id, claim_id, detected_at)
    values (
      ${transactionId}, owner_key(${link.userId}), ${link.network}, 'PAYMENT_LINK', 'PENDING', ${link.amountUnits}::bigint,
      ${claim.clientAddress}, ${link.description}, ${claim.txHash}, ${link.id}, ${claim.id}, now()
    )
    on conflict do nothing`;
}

/** The transfer has a row of its own. */
async function closeHistoryRow(tx: Tx, claimId: string): Promise<void> {
  await tx`delete from transactions where claim_id = ${claimId} and status = 'PENDING' and transfer_id is null`;
}

async function holdLink(tx: Tx, link: PaymentLink, claimId: string): Promise<void> {
  const moved = await tx`
    update payment_links
    set status = 'PENDING', updated_at = now()
    where id = ${link.id} and status = 'ACTIVE'
    returning id`;
  if (moved.length === 0) return;
  await recordEvents(tx, [
    { userId: link.userId, type: "payment_link.pending", subjectId: link.id, data: { claimId } },
  ]);
  await notify(tx, [link.id]);
}

export async function notePoll(tx: Tx, id: string, leaseS?: number): Promise<void> {
  await tx`
    update claims
    set
      looks = looks + 1,
      lease_until = greatest(lease_until, now() + make_interval(secs => ${leaseS ?? 0})),
      updated_at = now()
    where id = ${id} and state = 'OPEN'`;
}
