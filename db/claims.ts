/** Claims: what a payer's browser said it sent. A claim holds its link PENDING for a lease and never stands in a payment's way. */
import type { Hex, NetworkId } from "../core/domain/networks.ts";
import type { Tx } from "./client.ts";
import { recordEvents } from "./events.ts";
import { tell } from "./outcome.ts";
import { hasSpareTransfer } from "./released-links.ts";
import type { Claim, PaymentLink } from "./schema.ts";

export type ClaimKey = Pick<Claim, "linkId" | "txHash" | "clientAddress">;

export async function findClaim(tx: Tx, key: ClaimKey): Promise<Claim | undefined> {
  const [row] = await tx<Claim[]>`
    select *
    from claims
    where link_id = ${key.linkId} and tx_hash = ${key.txHash} and client_address = ${key.clientAddress}`;
  return row;
}

/** A claim that still waits, with its link's terms. */
export type OpenClaim = Pick<
  Claim,
  "id" | "linkId" | "network" | "txHash" | "clientAddress" | "looks" | "createdAt"
> & {
  isLeaseOver: boolean;
  recipient: Hex;
  amountUnits: bigint;
  linkCreatedAt: Date;
  expiresAt: Date;
};

export async function findOpenClaim(tx: Tx, id: string): Promise<OpenClaim | undefined> {
  const [row] = await tx<OpenClaim[]>`
    select
      claim.id, claim.link_id, claim.network, claim.tx_hash, claim.client_address, claim.looks, claim.created_at,
      claim.lease_until <= now() as is_lease_over,
      link.recipient, link.amount_units, link.created_at as link_created_at, link.expires_at
    from claims claim
    join payment_links link on link.id = claim.link_id
    where claim.id = ${id} and claim.state = 'OPEN'`;
  return row;
}

/** Whether every one of these logs of a transaction pays another link already, or executed another link's authorization. */
export async function areLogsTaken(
  tx: Tx,
  { linkId, network, txHash, payer }: { linkId: string; network: NetworkId; txHash: Hex; payer: Hex },
  logs: readonly { logIndex: number; authorizationNonce: Hex | undefined }[],
): Promise<boolean> {
  const [row] = await tx<{ free: bigint }[]>`
    select count(*) as free
    from unnest(
      ${logs.map((log) => log.logIndex)}::int[],
      ${logs.map((log) => log.authorizationNonce ?? null)}::text[]
    ) as log (log_index, nonce)
    where not exists (
        select from (select * from transfers where tx_hash = ${txHash} offset 0) booked
        where booked.network = ${network} and booked.log_index = log.log_index and booked.status <> 'ORPHANED'
          and booked.link_id <> ${linkId}
      )
      and not exists (
        select from payments
        where payments.network = ${network} and payments.payer = ${payer} and payments.nonce = log.nonce
          and payments.link_id <> ${linkId}
        offset 0
      )`;
  return row?.free === 0n;
}

export type NewClaim = ClaimKey &
  Pick<Claim, "id" | "network" | "requestId"> & { transactionId: string; leaseS: number };

/**
 * Stores a claim, or opens one again whose lease was over, moves its link ACTIVE -> PENDING and shows the merchant a PENDING
 * history row. Undefined when the link is not open (any more). Returns the claim as it was when it was open already.
 */
export async function openClaim(
  tx: Tx,
  given: NewClaim,
): Promise<{ claim: Claim; isNew: boolean } | undefined> {
  const [link] = await tx<(PaymentLink & { isOpen: boolean })[]>`
    select *, status = 'PENDING' or (status = 'ACTIVE' and expires_at > now()) as is_open
    from payment_links
    where id = ${given.linkId}
    for update`;
  const known = await findClaim(tx, given);
  if (known?.state === "OPEN" || known?.state === "MATCHED") return { claim: known, isNew: false };
  if (!link?.isOpen) return undefined;
  const [claim] = await tx<Claim[]>`
    insert into claims (id, link_id, network, tx_hash, client_address, lease_until, request_id)
    values (
      ${given.id}, ${given.linkId}, ${given.network}, ${given.txHash}, ${given.clientAddress},
      now() + make_interval(secs => ${given.leaseS}), ${given.requestId}
    )
    on conflict (link_id, tx_hash, client_address) do update
    set
      state = 'OPEN', reason = null, looks = 0, lease_until = excluded.lease_until,
      request_id = excluded.request_id, created_at = now(), updated_at = now()
    returning *`;
  if (!claim) throw new Error("insert into claims returned no row");
  await tx`
    insert into transactions
      (id, user_id, network, type, status, amount_units, counterparty, description, tx_hash, link_id, claim_id, detected_at)
    values (
      ${given.transactionId}, ${link.userId}, ${link.network}, 'PAYMENT_LINK', 'PENDING', ${link.amountUnits}::bigint,
      ${given.clientAddress}, ${link.description}, ${given.txHash}, ${link.id}, ${claim.id}, now()
    )
    on conflict do nothing`;
  await holdLink(tx, link, claim.id);
  return { claim, isNew: true };
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
  await tell(tx, [link.id]);
}

export async function noteLook(tx: Tx, id: string, leaseS?: number): Promise<void> {
  await tx`
    update claims
    set
      looks = looks + 1,
      lease_until = greatest(lease_until, now() + make_interval(secs => ${leaseS ?? 0})),
      updated_at = now()
    where id = ${id} and state = 'OPEN'`;
}

/**
 * Ends an open claim and releases its link when nothing else holds it. EXPIRED claims still speak for their transaction should
 * it be mined later, REJECTED ones never. The history row goes, or is FAILED when the chain proved that.
 * The link is locked first: what then looks for payments and transfers that hold it sees those of whoever held the lock before.
 */
export async function endClaim(
  tx: Tx,
  {
    id,
    state,
    reason,
    isProven,
  }: { id: string; state: "REJECTED" | "EXPIRED"; reason: string; isProven: boolean },
): Promise<boolean> {
  await tx`
    select id
    from payment_links
    where id = (select link_id from claims where id = ${id})
    for update`;
  const [claim] = await tx<Pick<Claim, "linkId">[]>`
    update claims
    set state = ${state}, reason = ${reason}, updated_at = now()
    where id = ${id} and state = 'OPEN'
    returning link_id`;
  if (!claim) return false;
  if (isProven) {
    const rows = await tx<{ id: string; userId: string }[]>`
      update transactions
      set status = 'FAILED', failure_reason = ${reason}, updated_at = now()
      where claim_id = ${id} and status = 'PENDING' and transfer_id is null
      returning id, user_id`;
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

/** PENDING -> ACTIVE, or EXPIRED by the clock, when no payment, transfer or other claim holds the link. */
async function releaseLink(tx: Tx, linkId: string, reason: string): Promise<void> {
  const [link] = await tx<Pick<PaymentLink, "userId" | "status">[]>`
    update payment_links link
    set status = case when expires_at <= now() then 'EXPIRED' else 'ACTIVE' end, updated_at = now()
    where id = ${linkId}
      and status = 'PENDING'
      and not exists (select from payments where payments.link_id = link.id and payments.state <> 'FAILED')
      and not exists (
        select from transfers
        where transfers.link_id = link.id and transfers.pays and transfers.status <> 'ORPHANED'
      )
      and not exists (
        select from claims
        where claims.link_id = link.id and claims.state = 'OPEN' and claims.lease_until > now()
      )
      and not ${hasSpareTransfer(tx, { id: "link.id", amountUnits: "link.amount_units" })}
    returning user_id, status`;
  if (!link) return;
  const type = link.status === "EXPIRED" ? "payment_link.expired" : "payment_link.released";
  await recordEvents(tx, [{ userId: link.userId, type, subjectId: linkId, data: { reason } }]);
  await tell(tx, [linkId]);
}
