/** A merchant's manual assignments of received transfers to links. Stored by position in the chain, so that they survive a rebuild; a reorganisation moves them (reorganised-assignments.ts). */

import type { LinkException, LinkStatus } from "../../core/domain/link.ts";
import { type Hex, NETWORKS, type NetworkId } from "../../core/domain/networks.ts";
import type { TransactionStatus, TransactionType } from "../../core/domain/payment.ts";
import type { SettledBy } from "../../core/domain/settled-by.ts";
import type { Tx } from "../postgres/client.ts";
import { clearPlaces } from "./reorganised-assignments.ts";

const USDC_ADDRESSES = Object.values(NETWORKS).map(({ usdc }) => usdc.address);

/** A history row with its transfer; for an open payment, which has no row yet, without one. */
export type AssignableTransfer = {
  transferId: bigint | null;
  network: NetworkId;
  type: TransactionType;
  status: TransactionStatus;
  txHash: Hex;
  logIndex: number;
  sender: Hex;
  recipient: Hex;
  amountUnits: bigint;
  linkId: string | null;
  pays: boolean;
  settledBy: SettledBy | null;
  paymentId: string | null;
  /** Whether it settled a facilitated payment. */
  isFacilitated: boolean;
};

/** Locks the network's cursor until the transaction ends, so that the indexer writes nothing concurrently. */
export async function lockCursor(tx: Tx, network: NetworkId): Promise<void> {
  await tx`
    select number
    from cursors
    where network = ${network}
    for update`;
}

export async function findAssignableTransfer(
  tx: Tx,
  { transactionId, userId }: { transactionId: string; userId: string },
): Promise<AssignableTransfer | undefined> {
  const [row] = await tx<AssignableTransfer[]>`
    select
      history.transfer_id, history.network, history.type, history.status, transfer.tx_hash, transfer.log_index,
      transfer.from_address as sender, transfer.to_address as recipient, transfer.amount_units, transfer.link_id, transfer.pays, transfer.settled_by,
      transfer.payment_id,
      exists (
        select from payments elsewhere
        where elsewhere.network = transfer.network
          and elsewhere.token = any(${USDC_ADDRESSES}::bytea[])
          and elsewhere.payer = transfer.from_address
          and elsewhere.nonce = transfer.authorization_nonce
          and authorization_digest(elsewhere.network, elsewhere.token, elsewhere.payer, elsewhere.nonce) = any(array(
            select authorization_digest(transfer.network, token, transfer.from_address, transfer.authorization_nonce)
            from unnest(${USDC_ADDRESSES}::bytea[]) as token
          ))
          and elsewhere.link_id is null
          and elsewhere.state in ('MINED', 'CONFIRMED')
      ) as is_facilitated
    from (
      select id, network, type, status, transfer_id
      from transactions
      where id = ${transactionId} and owner = owner_key(${userId})
      union all
      select id, network, type, status, transfer_id
      from unwritten_of(owner_key(${userId}))
      where id = ${transactionId}
    ) history
    left join transfers transfer on transfer.id = history.transfer_id`;
  return row;
}

export type AssignableLink = {
  id: string;
  network: NetworkId;
  recipient: Hex;
  status: LinkStatus;
  exception: LinkException;
  amountUnits: bigint;
  payAmountUnits: bigint | null;
  refundedUnits: bigint;
  /** Whether a transfer pays it. */
  isTaken: boolean;
  /** Whether one of our payments may still be executed for it. */
  hasLivePayment: boolean;
};

/** A user's own link with its holders. Lock it first. */
export async function findAssignableLink(
  tx: Tx,
  { linkId, userId }: { linkId: string; userId: string },
): Promise<AssignableLink | undefined> {
  const [row] = await tx<AssignableLink[]>`
    select
      id, network, recipient, status, exception, amount_units, pay_amount_units, refunded_units,
      exists (
        select from transfers
        where transfers.link_id = link.id and transfers.pays and transfers.status <> 'ORPHANED'
      ) as is_taken,
      exists (
        select from payments
        where payments.link_id = link.id and payments.is_live and payments.state in ('QUEUED', 'SIGNED', 'BROADCAST')
      ) as has_live_payment
    from payment_links link
    where id = ${linkId} and user_id = ${userId} and not is_reusable`;
  return row;
}

/**
 * `linkId` undefined: no link, overriding amounts and early claims. Replaces the decision about the transfer at this place; one that waits
 * here for a transfer that a reorganisation has orphaned stays pending.
 */
export async function saveAssignment(
  tx: Tx,
  given: {
    network: NetworkId;
    txHash: Hex;
    logIndex: number;
    userId: string;
    linkId: string | undefined;
    accept: boolean;
  },
): Promise<void> {
  await clearPlaces(tx, given.network, [{ tx_hash: given.txHash, log_index: given.logIndex }]);
  await tx`
    insert into assignments (network, tx_hash, log_index, user_id, link_id, accept)
    values (
      ${given.network}, ${given.txHash}, ${given.logIndex}, ${given.userId}, ${given.linkId ?? null}, ${given.accept}
    )
    on conflict (network, tx_hash, log_index) do update
    set user_id = excluded.user_id, link_id = excluded.link_id, accept = excluded.accept, updated_at = now()`;
}

/** Matches the link's claim of this transaction by its sender; the transfer's history row replaces the row that was opened for it. */
export async function matchClaimsOf(
  tx: Tx,
  { linkId, txHash, sender }: { linkId: string; txHash: Hex; sender: Hex },
): Promise<void> {
  await tx`
    with matched as (
      update claims
      set state = 'MATCHED', reason = null, updated_at = now()
      where link_id = ${linkId}
        and tx_hash = ${txHash}
        and client_address = ${sender}
        and state in ('OPEN', 'HINT', 'DISPUTED', 'EXPIRED')
      returning id
    )
    delete from transactions
    using matched
    where transactions.claim_id = matched.id and transactions.status = 'PENDING' and transactions.transfer_id is null`;
}

/** Ends the link's claims of this transaction; reopens and returns proofs for other links that waited for it. */
export async function reopenClaims(
  tx: Tx,
  { linkId, txHash, network, leaseS }: { linkId: string; txHash: Hex; network: NetworkId; leaseS: number },
): Promise<string[]> {
  const rows = await tx<{ id: string; state: string }[]>`
    update claims
    set
      state = case when link_id = ${linkId} then 'EXPIRED' else 'OPEN' end,
      reason = case when link_id = ${linkId} then 'unassigned' end,
      lease_until = case when link_id = ${linkId} then lease_until else now() + make_interval(secs => ${leaseS}) end,
      updated_at = now()
    where network = ${network}
      and tx_hash = ${txHash}
      and (link_id = ${linkId} and state = 'MATCHED' or link_id <> ${linkId} and state = 'DISPUTED')
    returning id, state`;
  return rows.flatMap(({ id, state }) => (state === "OPEN" ? [id] : []));
}
