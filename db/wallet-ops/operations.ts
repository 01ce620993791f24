/** User operations as the API inserts, reads and cancels them. The worker's statements are in queue.ts, the indexer's in settlement.ts. */
import { type Hex, NETWORK_IDS, type NetworkId } from "../../core/domain/networks.ts";
import type { OperationKind, OperationState, OperationTerms } from "../../core/domain/wallet-operation.ts";
import { hashOf } from "../http/idempotency.ts";
import type { Tx } from "../postgres/client.ts";
import { columnsOf } from "../postgres/columns-of.ts";
import { NONCES_OF_KEY_0 } from "./missed-events.ts";
import { type WalletOperation, walletOperations } from "./schema.ts";

export type NewOperationItem = { to: Hex; amountUnits: bigint; note: string; isFee: boolean };

export type NewOperation = {
  id: string;
  userId: string;
  walletId: string;
  network: NetworkId;
  kind: OperationKind;
  userOpHash: Hex;
  accountNonce: bigint;
  callData: Hex;
  callGas: bigint;
  verificationGas: bigint;
  terms: OperationTerms;
  challengeId: string;
  voidOf?: string | undefined;
  /** Prepared in addition to the wallet's live operation, like a void. */
  isExtra?: boolean | undefined;
  ownerChangeId?: string | undefined;
  /** Signed without the chain's id: the same signature is valid on every network. */
  isAnyChain?: boolean | undefined;
  idempotencyKey: string | undefined;
  /** What must be equal for two preparations to be the same. */
  request: unknown;
  requestId: string;
  lifeMs: number;
  items: readonly NewOperationItem[];
  /** Prepares an unsigned one again: with the same transfers, under the same id. */
  renews?: boolean;
};

/** Undefined when a preparation with this Idempotency-Key exists, or, of one that is renewed, when it was signed or cancelled. */
export async function insertOperation(tx: Tx, operation: NewOperation): Promise<WalletOperation | undefined> {
  const { items, renews = false, ...given } = operation;
  const [row] = await tx<WalletOperation[]>`
    insert into wallet_operations (
      id, user_id, wallet_id, network, kind, user_op_hash, account_nonce, call_data, call_gas, verification_gas, terms,
      challenge_id, void_of, is_extra, owner_change_id, is_any_chain, idempotency_key, request_hash, request_id, expires_at
    )
    values (
      ${given.id}, ${given.userId}, ${given.walletId}, ${given.network}, ${given.kind}, ${given.userOpHash},
      ${given.accountNonce.toString()}::numeric, ${given.callData}, ${given.callGas}, ${given.verificationGas},
      ${JSON.stringify(given.terms)}::text::jsonb, ${given.challengeId}, ${given.voidOf ?? null},
      ${given.voidOf !== undefined || (given.isExtra ?? false)}, ${given.ownerChangeId ?? null}, ${given.isAnyChain ?? false}, ${given.idempotencyKey ?? null}, ${hashOf(given.request)}, ${given.requestId},
      now() + make_interval(secs => ${given.lifeMs / 1_000})
    )
    ${renews ? renewUnsigned(tx) : skipKnownKey(tx)}
    returning ${columnsOf(tx, walletOperations)}`;
  if (!row) return undefined;
  const rows = items.map(({ to, amountUnits, note, isFee }, position) => ({
    position,
    to_address: to,
    amount_units: amountUnits.toString(),
    note,
    is_fee: isFee,
  }));
  await tx`
    insert into wallet_operation_items (operation_id, position, to_address, amount_units, note, is_fee)
    select ${row.id}, position, to_address, amount_units, note, is_fee
    from json_to_recordset(${JSON.stringify(rows)}::text::json)
      as given (position int, to_address text, amount_units bigint, note text, is_fee boolean)
    on conflict (operation_id, position) do nothing`;
  return row;
}

function skipKnownKey(tx: Tx) {
  return tx`
    on conflict (user_id, kind, idempotency_key)
      where idempotency_key is not null and state not in ('EXPIRED', 'CANCELLED')
      do nothing`;
}

/**
 * EXPIRED | AWAITING_SIGNATURE -> AWAITING_SIGNATURE. What was signed for it before and got lost spends the same nonce, or one that is
 * spent: only one of the two can be executed.
 */
function renewUnsigned(tx: Tx) {
  return tx`
    on conflict (id) do update
    set
      state = 'AWAITING_SIGNATURE', user_op_hash = excluded.user_op_hash, account_nonce = excluded.account_nonce,
      call_data = excluded.call_data, call_gas = excluded.call_gas, verification_gas = excluded.verification_gas,
      terms = excluded.terms, challenge_id = excluded.challenge_id, request_id = excluded.request_id,
      expires_at = excluded.expires_at, is_extra = excluded.is_extra, updated_at = now()
    where wallet_operations.state in ('EXPIRED', 'AWAITING_SIGNATURE')`;
}

export type OperationView = WalletOperation & {
  walletAddress: Hex;
  isDeployed: boolean;
  /** Whether another operation, or this one, has spent the account's nonce. */
  isNonceSpent: boolean;
  isOver: boolean;
  items: {
    to: Hex;
    /** Decimal text of micro-USDC. */
    units: string;
    note: string;
    isFee: boolean;
    transactionId: string | null;
  }[];
};

type Chosen = { userId: string; kind: OperationKind };

/** Also by the id that an operation had before a restored backup lost its row: its random part is on the chain, its time is not. */
export async function findOperation(
  tx: Tx,
  { id, userId, kind }: Chosen & { id: string },
): Promise<OperationView | undefined> {
  const [row] = await tx<OperationView[]>`
    ${selectViews(tx)}
    where op.id = ${id} and op.user_id = ${userId} and op.kind = ${kind}`;
  if (row) return row;
  const [restored] = await tx<OperationView[]>`
    ${selectViews(tx)}
    where op.restored_at is not null
      and right(op.id, 32) = right(${id}, 32)
      and op.user_id = ${userId}
      and op.kind = ${kind}`;
  return restored;
}

export async function findOperations(
  tx: Tx,
  { ids, userId, kind }: Chosen & { ids: readonly string[] },
): Promise<OperationView[]> {
  if (ids.length === 0) return [];
  return tx<OperationView[]>`
    ${selectViews(tx)}
    where op.id = any(${[...ids]}::text[]) and op.user_id = ${userId} and op.kind = ${kind}`;
}

/** The preparation that an Idempotency-Key belongs to, and whether it was made by the same request. */
export async function findByIdempotencyKey(
  tx: Tx,
  { userId, kind, key, request }: Chosen & { key: string; request: unknown },
): Promise<{ operation: OperationView; isSameRequest: boolean } | undefined> {
  const [operation] = await tx<OperationView[]>`
    ${selectViews(tx)}
    where op.user_id = ${userId}
      and op.kind = ${kind}
      and op.idempotency_key = ${key}
      and op.state not in ('EXPIRED', 'CANCELLED')`;
  if (!operation) return undefined;
  const isSameRequest = Buffer.from(operation.requestHash ?? []).equals(hashOf(request));
  return { operation, isSameRequest };
}

/** Newest first; `before` is the last id of the previous page. */
export async function listOperations(
  tx: Tx,
  { userId, kind, state }: Chosen & { state: OperationState | undefined },
  { before, limit }: { before: string | undefined; limit: number },
): Promise<OperationView[]> {
  return tx<OperationView[]>`
    ${selectViews(tx)}
    where op.user_id = ${userId}
      and op.kind = ${kind}
      ${before === undefined ? tx`` : tx`and op.id < ${before}`}
      ${state === undefined ? tx`` : tx`and ${shownState(tx)} = ${state}`}
    order by op.id desc
    limit ${limit}`;
}

/** An operation not signed in time is EXPIRED, even before the job updates the row. */
function shownState(tx: Tx) {
  return tx`case
    when op.state = 'AWAITING_SIGNATURE' and op.expires_at <= now() then 'EXPIRED'
    else op.state
  end`;
}

/** The operations of an owner change, one per network, in the order of preparation. */
export async function listOperationsOfChange(
  tx: Tx,
  { changeId, userId }: { changeId: string; userId: string },
): Promise<OperationView[]> {
  return tx<OperationView[]>`
    ${selectViews(tx)}
    where op.owner_change_id = ${changeId} and op.user_id = ${userId}
    order by op.id`;
}

function selectViews(tx: Tx) {
  return tx`
    select
      ${columnsOf(tx, walletOperations, "op")}, wallet.address as wallet_address, wallet.deployed_at is not null as is_deployed, op.expires_at <= now() as is_over, ${isNonceSpent(tx)} as is_nonce_spent,
      (
        select coalesce(
          jsonb_agg(
            jsonb_build_object(
              'to', item.to_address, 'units', item.amount_units::text, 'note', item.note, 'isFee', item.is_fee,
              'transactionId', (select id from transactions where operation_item_id = item.id)
            )
            order by item.position
          ),
          '[]'
        )
        from wallet_operation_items item
        where item.operation_id = op.id
      ) as items
    from wallet_operations op
    join wallets wallet on wallet.id = op.wallet_id`;
}

/** Needs `op` and `wallet`. A nonce's key is what is above its lower 64 bits; the nonces of each key are a sequence of their own. */
export function isNonceSpent(tx: Tx) {
  return tx`exists (
    select from wallet_operation_events spent
    where spent.network = op.network
      and spent.sender = hex_of(wallet.address)
      and spent.nonce >= op.account_nonce
      and spent.nonce < (div(op.account_nonce, 18446744073709551616) + 1) * 18446744073709551616
  )`;
}

/** The pending operation of this wallet. */
export async function findLiveOperation(tx: Tx, walletId: string): Promise<string | undefined> {
  const [row] = await tx<{ id: string }[]>`
    select id
    from wallet_operations
    where wallet_id = ${walletId}
      and state in ('QUEUED', 'SIGNED', 'BROADCAST', 'MINED')
      and not is_extra
      and not is_any_chain`;
  return row?.id;
}

/**
 * The nonce that a live operation waits for: what had spent it was reorganised away and is not sent again by us, since another sender
 * had executed it, it was made elsewhere, or its signer is no owner any more. Undefined while an operation of that nonce is on its way.
 */
export async function findMissingNonce(tx: Tx, liveId: string): Promise<bigint | undefined> {
  const [row] = await tx<{ nonce: bigint }[]>`
    select missing.nonce
    from wallet_operations op
    join wallets wallet on wallet.id = op.wallet_id
    cross join lateral (
      select coalesce(max(spent.nonce) + 1, 0) as nonce
      from wallet_operation_events spent
      where spent.network = op.network
        and spent.sender = hex_of(wallet.address)
        and spent.nonce < ${NONCES_OF_KEY_0.toString()}::numeric
    ) missing
    where op.id = ${liveId}
      and op.state = 'QUEUED'
      and op.account_nonce > missing.nonce
      and not exists (
        select from wallet_operations other
        where other.wallet_id = op.wallet_id
          and other.account_nonce = missing.nonce
          and other.state in ('QUEUED', 'SIGNED', 'BROADCAST', 'MINED')
      )`;
  return row && BigInt(row.nonce);
}

export type Signed = {
  id: string;
  userId: string;
  /** What the signature is for: the operation may have been prepared again since it was read. */
  userOpHash: Hex;
  passkeyId: string;
  ownerIndex: number;
  signature: Hex;
  assertionHash: Uint8Array;
};

/**
 * AWAITING_SIGNATURE -> QUEUED. Undefined when it is no longer waiting, has expired, or its nonce is spent; the transaction must
 * then be rolled back. Violates wallet_operations_live_key when another operation of the wallet came first.
 */
export async function queueOperation(tx: Tx, signed: Signed): Promise<WalletOperation | undefined> {
  const [row] = await tx<WalletOperation[]>`
    update wallet_operations op
    set
      state = 'QUEUED', passkey_id = ${signed.passkeyId}, owner_index = ${signed.ownerIndex},
      signature = ${signed.signature}, assertion_hash = ${signed.assertionHash}, queued_at = now(), next_try_at = now(),
      updated_at = now()
    from wallets wallet
    where op.id = ${signed.id}
      and op.user_id = ${signed.userId}
      and op.user_op_hash = ${signed.userOpHash}
      and op.state = 'AWAITING_SIGNATURE'
      and op.expires_at > now()
      and wallet.id = op.wallet_id
      and not ${isNonceSpent(tx)}
    returning ${columnsOf(tx, walletOperations, "op")}`;
  return row && !(await hasSpentNonce(tx, row.id)) ? row : undefined;
}

/** Asked once the operation is the live one: another that ended while it waited for that is seen by a later statement alone. */
async function hasSpentNonce(tx: Tx, id: string): Promise<boolean> {
  const spent = await tx`
    select from wallet_operations op
    join wallets wallet on wallet.id = op.wallet_id
    where op.id = ${id} and ${isNonceSpent(tx)}`;
  return spent.length > 0;
}

/** PENDING history rows of an operation that was just queued, one per transfer. `ids` are the rows' ids. */
export async function openHistory(
  tx: Tx,
  operation: Pick<WalletOperation, "id">,
  { ids, linkId, description, note }: OpenedHistory,
): Promise<void> {
  await tx`
    insert into transactions (
      id, owner, network, type, status, amount_units, counterparty, description, link_id, operation_item_id, operation_id,
      operation_note, detected_at
    )
    select
      (${[...ids]}::text[])[item.position + 1], owner_key(op.user_id), op.network, 'SEND', 'PENDING',
      item.amount_units, bytes_of(item.to_address), coalesce(${description}::text, item.note), ${linkId}, item.id, op.id, ${note}, now()
    from wallet_operations op
    join wallet_operation_items item on item.operation_id = op.id
    where op.id = ${operation.id}`;
}

/** `description`: null for each item's own note. */
export type OpenedHistory = {
  ids: readonly string[];
  linkId: string | null;
  description: string | null;
  note: string | null;
};

/** AWAITING_SIGNATURE -> CANCELLED. False when it is no longer waiting. */
export async function cancelOperation(
  tx: Tx,
  { id, userId }: { id: string; userId: string },
): Promise<boolean> {
  const rows = await tx`
    update wallet_operations
    set state = 'CANCELLED', updated_at = now()
    where id = ${id} and user_id = ${userId} and state = 'AWAITING_SIGNATURE' and expires_at > now()
    returning id`;
  return rows.length === 1;
}

/** Addresses that this user's wallets have sent to, the latest recipient first. */
export async function findSentTo(tx: Tx, userId: string, limit: number): Promise<Hex[]> {
  const rows = await tx<{ counterparty: Hex }[]>`
    select counterparty
    from transactions
    where owner = owner_key(${userId})
      and cell = any(array(
        select transaction_cell('SEND', 'CONFIRMED', network)
        from unnest(${[...NETWORK_IDS]}::text[]) as network
      ))
      and is_settled
    group by counterparty
    order by max(detected_at) desc
    limit ${limit}`;
  return rows.map(({ counterparty }) => counterparty);
}
