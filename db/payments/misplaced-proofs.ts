/**
 * Proven claims that took a transfer of another amount because a node had left out the one that fits their link. A claim names a transaction only,
 * and takes the transfer that fits best among those that are known.
 */
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";
import { toByteaText } from "../postgres/hex-bytes.ts";
import { assignTransfers } from "./retroactive-attribution.ts";

/** Reopened claims are decided in the same transaction; the lease only has to outlast it. */
const LEASE_S = 90;

type Received = { txHash: Hex; from: Hex; to: Hex; amountUnits: bigint };

export type MisplacedProof = {
  claimId: string;
  linkId: string;
  transferId: bigint;
  txHash: Hex;
  logIndex: number;
};

/**
 * Detaches the transfers that these claims took, and reopens the claims. The caller attributes the detached ones anew, and has locked the links
 * together with all others that it changes. Returns those that are still misplaced: a refund may have been made before the locks.
 */
export async function releaseMisplacedProofs(
  tx: Tx,
  network: NetworkId,
  { transfers, found }: { transfers: readonly Received[]; found: readonly MisplacedProof[] },
): Promise<MisplacedProof[]> {
  const known = new Set(found.map(({ claimId }) => claimId));
  const released = (await findMisplacedProofs(tx, network, transfers)).filter(({ claimId }) =>
    known.has(claimId),
  );
  await assignTransfers(
    tx,
    released.map(({ transferId }) => ({
      ...{ transferId, linkId: undefined, pays: false, settledBy: undefined },
      ...{ paymentId: undefined, claimId: undefined },
    })),
  );
  await tx`
    update claims
    set state = 'OPEN', lease_until = now() + make_interval(secs => ${LEASE_S}), updated_at = now()
    where id = any(${released.map(({ claimId }) => claimId)}::text[]) and state = 'MATCHED'`;
  return released;
}

/** Claims that took a transfer while one of `transfers`, which are not stored yet, fits better. A transfer that was refunded stays. */
export function findMisplacedProofs(
  tx: Tx,
  network: NetworkId,
  transfers: readonly Received[],
): Promise<MisplacedProof[]> {
  const given = transfers.map(({ txHash, from, to, amountUnits }) => ({
    tx_hash: toByteaText(txHash),
    from_address: toByteaText(from),
    to_address: toByteaText(to),
    amount_units: amountUnits.toString(),
  }));
  return tx<MisplacedProof[]>`
    select distinct on (claim.id)
      claim.id as claim_id, link.id as link_id, taken.id as transfer_id, taken.tx_hash, taken.log_index
    from json_to_recordset(${JSON.stringify(given)}::text::json)
      as fitting (tx_hash bytea, from_address bytea, to_address bytea, amount_units numeric)
    join claims claim
      on claim.tx_hash = hex_of(fitting.tx_hash)
      and claim.client_address = hex_of(fitting.from_address)
      and claim.network = ${network}
      and claim.state = 'MATCHED'
      and claim.proof is not null
    join payment_links link
      on link.id = claim.link_id
      and link.recipient = fitting.to_address
      and fitting.amount_units in (link.amount_units, link.pay_amount_units)
    cross join lateral (
      select id, tx_hash, log_index
      from transfers
      where transfers.tx_hash = fitting.tx_hash
        and transfers.network = ${network}
        and transfers.link_id = link.id
        and transfers.from_address = fitting.from_address
        and transfers.status <> 'ORPHANED'
        and transfers.settled_by = 'proof'
        and not transfers.pays
        and transfers.amount_units <> all(array[link.amount_units, coalesce(link.pay_amount_units, link.amount_units)])
      order by log_index
      limit 1
    ) taken
    where not exists (
      select from refunds
      where refunds.paid_tx_hash = hex_of(taken.tx_hash)
        and refunds.paid_log_index = taken.log_index
        and refunds.network = ${network}
        and refunds.orphaned_transfer_id is null
    )
    order by claim.id`;
}
