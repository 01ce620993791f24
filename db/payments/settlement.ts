/** Settles payments and claims with transfers. The status of their links: db/links/recompute-link-status.ts. */

import type { AuthorizationKey } from "../../core/domain/authorization.ts";
import { type Hex, NETWORKS, type NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";
import { toByteaText } from "../postgres/hex-bytes.ts";

export type SettledPayment = {
  id: string;
  txHash: Hex;
  logIndex: number;
  blockNumber: number;
  isConfirmed: boolean;
};

/** Payments whose authorization a canonical block executed become MINED, or CONFIRMED when deep enough; FAILED ones too. */
export async function settlePayments(tx: Tx, payments: readonly SettledPayment[]): Promise<void> {
  if (payments.length === 0) return;
  const rows = payments.map((payment) => ({
    id: payment.id,
    tx_hash: toByteaText(payment.txHash),
    log_index: payment.logIndex,
    block_number: payment.blockNumber,
    state: payment.isConfirmed ? "CONFIRMED" : "MINED",
  }));
  await tx`
    update payments
    set
      state = given.state, reason = null, tx_hash = given.tx_hash, log_index = given.log_index,
      block_number = given.block_number, updated_at = now()
    from json_to_recordset(${JSON.stringify(rows)}::text::json) as given (
      id text, tx_hash bytea, log_index int, block_number bigint, state text
    )
    where payments.id = given.id
      and payments.id = any(${payments.map(({ id }) => id)}::text[])`;
}

/** OPEN -> MATCHED for claims whose transfer was found. */
export async function matchClaims(tx: Tx, claimIds: readonly string[]): Promise<void> {
  if (claimIds.length === 0) return;
  await tx`
    update claims
    set state = 'MATCHED', reason = null, updated_at = now()
    where id = any(${[...claimIds]}::text[]) and state <> 'MATCHED'`;
}

/**
 * Live payments whose nonce was used without paying them (cancelled, or signed twice by the payer) can never settle: FAILED. In a block that
 * is not deep, those of links that are signed stay: after a reorganisation our bytes may come before what used the nonce.
 */
export async function failSpentPayments(
  tx: Tx,
  network: NetworkId,
  spent: readonly (AuthorizationKey & { isDeep: boolean })[],
): Promise<{ id: string; linkId: string | null }[]> {
  if (spent.length === 0) return [];
  const deep = spent.filter(({ isDeep }) => isDeep);
  return tx<{ id: string; linkId: string | null }[]>`
    with failed as (
      update payments
      set state = 'FAILED', reason = 'NONCE_USED', updated_at = now()
      where authorization_digest(network, token, payer, nonce) = any(array(
          select authorization_digest(${network}, ${NETWORKS[network].usdc.address}, given.payer, given.nonce)
          from unnest(
            ${spent.map((one) => one.payer)}::bytea[],
            ${spent.map((one) => one.nonce)}::bytea[]
          ) as given (payer, nonce)
        ))
        and (payer, nonce) in (
          select *
          from unnest(${spent.map((one) => one.payer)}::bytea[], ${spent.map((one) => one.nonce)}::bytea[])
        )
        and network = ${network}
        and token = ${NETWORKS[network].usdc.address}
        and (
          state = 'QUEUED'
          or state in ('SIGNED', 'BROADCAST') and (link_id is null or (payer, nonce) in (
            select *
            from unnest(${deep.map((one) => one.payer)}::bytea[], ${deep.map((one) => one.nonce)}::bytea[])
          ))
        )
      returning id, link_id
    ),
    history as (
      update transactions
      set status = 'FAILED', failure_reason = 'NONCE_USED', updated_at = now()
      from failed
      where transactions.payment_id = failed.id and transactions.status = 'PENDING'
      returning transactions.id, user_of(transactions.owner) as user_id
    ),
    event as (
      insert into events (user_id, type, subject_id, data)
      select user_id, 'transaction.failed', id, jsonb_build_object('reason', 'NONCE_USED')
      from history
    )
    select id, link_id
    from failed`;
}
