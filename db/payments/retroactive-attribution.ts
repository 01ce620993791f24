/** Transfers that were recorded before the payment or claim they settle: finds them and attributes them afterwards. */

import { type Hex, NETWORKS, type NetworkId } from "../../core/domain/networks.ts";
import type { SettledBy } from "../../core/domain/settled-by.ts";
import type { Tx } from "../postgres/client.ts";
import { columnsOf } from "../postgres/columns-of.ts";
import { transfers } from "../schema.ts";

export type BookedTransfer = {
  id: bigint;
  txHash: Hex;
  from: Hex;
  to: Hex;
  amountUnits: bigint;
  blockNumber: bigint;
  logIndex: number;
  blockTime: Date;
  authorizationNonce: Hex | null;
  status: "DETECTED" | "CONFIRMED";
  linkId: string | null;
  pays: boolean;
  settledBy: SettledBy | null;
};

/**
 * In chain order: transfers named by claims or unsettled payments that could still be theirs. A proven claim also names a transfer
 * that was attributed to another link by inference. `offset 0` keeps each look-up by its own key: joined, a young table's statistics
 * would make Postgres read all transfers of a network for every claim.
 */
export async function findNamedTransfers(tx: Tx, network: NetworkId): Promise<BookedTransfer[]> {
  return tx<BookedTransfer[]>`
    with named as (
      select transfer.*
      from claims claim
      join payment_links link on link.id = claim.link_id
      cross join lateral (
        select ${columnsOf(tx, transfers)}
        from transfers
        where tx_hash = bytes_of(claim.tx_hash)
        offset 0
      ) transfer
      where claim.network = ${network}
        and transfer.network = claim.network
        and transfer.status <> 'ORPHANED'
        and transfer.to_address = link.recipient
        and hex_of(transfer.from_address) = claim.client_address
        and (
          claim.state = 'OPEN' and transfer.link_id is null
          or claim.state = 'OPEN'
            and claim.proof is not null
            and transfer.link_id <> claim.link_id
            and transfer.settled_by in ('early_claim', 'pay_amount', 'amount')
        )
        and not exists (${facilitated(tx, network)})
      union
      select transfer.*
      from open_payments
      join payments payment on payment.id = open_payments.payment_id
      cross join lateral (
        select ${columnsOf(tx, transfers)}
        from transfers
        where network = payment.network and from_address = payment.payer and authorization_nonce = payment.nonce
        offset 0
      ) transfer
      where open_payments.network = ${network}
        and payment.link_id is not null
        and transfer.status <> 'ORPHANED'
        and transfer.payment_id is null
    )
    select
      id, tx_hash, from_address as from, to_address as to, amount_units, block_number, log_index, block_time,
      authorization_nonce, status, link_id, pays, settled_by
    from named
    order by block_number, log_index`;
}

/** A facilitated payment that this transfer settled: it paid for a third party's resource, never for a link. */
function facilitated(tx: Tx, network: NetworkId) {
  return tx`
    select from payments elsewhere
    where elsewhere.network = ${network}
      and elsewhere.token = ${NETWORKS[network].usdc.address}
      and elsewhere.payer = transfer.from_address
      and elsewhere.nonce = transfer.authorization_nonce
      and authorization_digest(elsewhere.network, elsewhere.token, elsewhere.payer, elsewhere.nonce) = authorization_digest(
        ${network}, ${NETWORKS[network].usdc.address}, transfer.from_address, transfer.authorization_nonce
      )
      and elsewhere.link_id is null
      and elsewhere.state in ('MINED', 'CONFIRMED')
    offset 0`;
}

export type RetroactiveAttribution = {
  transferId: bigint;
  linkId: string | undefined;
  pays: boolean;
  settledBy: SettledBy | undefined;
  paymentId: string | undefined;
  claimId: string | undefined;
  /** Of one without a link: the links that fit. */
  candidates?: readonly string[];
};

/**
 * Attributes recorded transfers to a link, or detaches them (undefined). Their history rows replace the rows that were opened for the
 * payment or claim.
 */
export async function assignTransfers(
  tx: Tx,
  attributions: readonly RetroactiveAttribution[],
): Promise<void> {
  if (attributions.length === 0) return;
  const rows = attributions.map((one) => ({
    transfer_id: one.transferId.toString(),
    link_id: one.linkId,
    pays: one.pays,
    settled_by: one.settledBy,
    payment_id: one.paymentId,
    claim_id: one.claimId,
    candidates: one.candidates?.length ? one.candidates : undefined,
  }));
  const given = tx`
    json_to_recordset(${JSON.stringify(rows)}::text::json) as given (
      transfer_id bigint, link_id text, pays boolean, settled_by text, payment_id text, claim_id text,
      candidates text[]
    )`;
  await tx`
    update transfers
    set
      link_id = given.link_id, pays = given.pays, settled_by = given.settled_by, candidates = given.candidates,
      payment_id = given.payment_id
    from ${given}
    where transfers.id = given.transfer_id`;
  await tx`
    delete from transactions
    using ${given}
    where transactions.transfer_id is null
      and (transactions.payment_id = given.payment_id or transactions.claim_id = given.claim_id)`;
  await tx`
    update transactions
    set
      type = case when given.pays then 'PAYMENT_LINK' else 'RECEIVE' end, link_id = given.link_id,
      settled_by = given.settled_by, candidates = given.candidates, payment_id = given.payment_id, claim_id = given.claim_id,
      description = coalesce(link.description, ''), updated_at = now()
    from ${given}
    left join payment_links link on link.id = given.link_id
    where transactions.transfer_id = given.transfer_id and transactions.type <> 'SEND'`;
}
