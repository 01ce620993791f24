/** Payments for resources of third parties (the facilitator): no link and no merchant of ours; settled by the chain like all others. */

import type { AuthorizationKey } from "../../core/domain/authorization.ts";
import type { AcceptanceFacts } from "../../core/domain/ledger-snapshot.ts";
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";
import { type AuthorizedPayment, toAuthorizedRow } from "./accept-payments.ts";
import { type AcceptanceRow, acceptanceColumns, toAcceptance } from "./acceptance-facts.ts";
import { idsByAuthorization } from "./ids-by-authorization.ts";

/** The API key that submitted the payment, and its user: the payment's success belongs to the key. */
export type NewFacilitatedPayment = AuthorizedPayment & {
  facilitatorUserId: string;
  facilitatorKeyId: string;
};

/** Inserts them QUEUED. Returns the inserted ids; the authorizations of the others are already known. */
export async function insertFacilitatedPayments(
  tx: Tx,
  payments: readonly NewFacilitatedPayment[],
): Promise<Set<string>> {
  const rows = payments.map((payment) => ({
    ...toAuthorizedRow(payment),
    facilitator_user_id: payment.facilitatorUserId,
    facilitator_key_id: payment.facilitatorKeyId,
  }));
  const inserted = await tx<{ id: string }[]>`
    with given as (
      select *
      from json_to_recordset(${JSON.stringify(rows)}::text::json) as row (
        id text, facilitator_user_id text, facilitator_key_id text, network text, token bytea, payer bytea, payer_kind text, recipient bytea,
        amount_units bigint, valid_after numeric, valid_before numeric, nonce bytea, signature bytea, request_id text
      )
    ),
    inserted as (
      insert into payments (
        id, facilitator_user_id, facilitator_key_id, network, token, payer, payer_kind, recipient, amount_units,
        valid_after, valid_before, nonce, signature, accepted_block
      )
      select
        id, facilitator_user_id, facilitator_key_id, network, token, payer, payer_kind, recipient, amount_units,
        valid_after, valid_before, nonce, signature,
        (select number from cursors where network = given.network)
      from given
      on conflict do nothing
      returning id
    ),
    requested as (
      insert into payment_requests (payment_id, request_id)
      select id, request_id
      from inserted
      join given using (id)
      where request_id is not null
      on conflict do nothing
    )
    select id from inserted`;
  return new Set(inserted.map((row) => row.id));
}

/**
 * Queues one again if its transaction does not exist or can no longer be executed, with the retry's data, including its owner. False when not
 * allowed.
 */
export async function requeueFacilitatedPayment(
  tx: Tx,
  id: string,
  retry: NewFacilitatedPayment,
): Promise<boolean> {
  const rows = await tx`
    with requeued as (
      update payments
      set
        state = 'QUEUED', reason = null, reason_text = null, refusals = 0, unavailable_since = null, next_try_at = now(),
        signature = ${retry.signature}, payer_kind = ${retry.payerKind}, recipient = ${retry.recipient},
        amount_units = ${retry.amountUnits}, valid_after = ${retry.validAfter},
        valid_before = ${retry.validBefore},
        facilitator_user_id = ${retry.facilitatorUserId}, facilitator_key_id = ${retry.facilitatorKeyId},
        updated_at = now()
      where id = ${id} and link_id is null and state = 'FAILED' and relay_id is null
      returning id
    ),
    requested as (
      insert into payment_requests (payment_id, request_id)
      select id, ${retry.requestId}::text
      from requeued
      where ${retry.requestId}::text is not null
      on conflict (payment_id) do update
      set request_id = excluded.request_id, created_at = now()
    )
    select id from requeued`;
  return rows.length === 1;
}

export type FacilitatedFacts = AcceptanceFacts & {
  id: string;
  payer: Hex;
  nonce: Hex;
  recipient: Hex;
  amountUnits: bigint;
};

/** The payments of these authorizations, locked in a fixed order. */
export async function loadFacilitatedPayments(
  tx: Tx,
  { network, token }: { network: NetworkId; token: Hex },
  authorizations: readonly (AuthorizationKey & { txHash?: Hex | undefined })[],
): Promise<FacilitatedFacts[]> {
  if (authorizations.length === 0) return [];
  const txHashes = authorizations.flatMap(({ txHash }) => txHash ?? []);
  const rows = await tx<(Omit<FacilitatedFacts, keyof AcceptanceFacts> & AcceptanceRow)[]>`
    select
      id, payer, nonce, recipient, amount_units,
      -- after a reorganisation: its success has released a resource
      state in ('MINED', 'CONFIRMED') or told_to is not null as was_settled,
      ${acceptanceColumns(tx, { network, txHashes })}
    from payments
    where id = any(array(
        ${idsByAuthorization(tx, { network, token }, authorizations)}
      ))
      and link_id is null
    order by id
    for update of payments`;
  return rows.map(toAcceptance);
}

export type UnsettledFacilitated = AuthorizationKey & { recipient: Hex; amountUnits: bigint };

/** The payments of these authorizations that no block has settled, open or FAILED, to addresses that are no wallets of ours. */
export async function findUnsettledFacilitated(
  tx: Tx,
  { network, token }: { network: NetworkId; token: Hex },
  authorizations: readonly AuthorizationKey[],
): Promise<UnsettledFacilitated[]> {
  if (authorizations.length === 0) return [];
  return tx<UnsettledFacilitated[]>`
    select payer, nonce, recipient, amount_units
    from payments
    where id = any(array(
        ${idsByAuthorization(tx, { network, token }, authorizations)}
      ))
      and link_id is null
      and state not in ('MINED', 'CONFIRMED')
      and not exists (
        select from wallets
        where wallets.network = payments.network and wallets.address = payments.recipient
      )`;
}

type Depth = { network: NetworkId; depthNumber: number };

/** SQL: true when `confirmFacilitatedPayments` would confirm a payment. */
export function hasFacilitatedAtDepth(tx: Tx, depth: Depth) {
  return tx`exists (select from payments where ${isMinedAtDepth(tx, depth)})`;
}

/** MINED -> CONFIRMED at or below `depthNumber`. Returns their ids. */
export async function confirmFacilitatedPayments(tx: Tx, depth: Depth): Promise<string[]> {
  const rows = await tx<{ id: string }[]>`
    update payments
    set state = 'CONFIRMED', updated_at = now()
    where ${isMinedAtDepth(tx, depth)}
    returning id`;
  return rows.map((row) => row.id);
}

function isMinedAtDepth(tx: Tx, { network, depthNumber }: Depth) {
  return tx`network = ${network} and facilitated_mined_block <= ${depthNumber}`;
}

/** The relayer addresses of each network. */
export async function listRelayers(tx: Tx): Promise<Hex[]> {
  const rows = await tx<{ address: Hex }[]>`
    select distinct address
    from relayers
    order by address`;
  return rows.map((row) => row.address);
}
