/** Owner changes: what one signature adds to or removes from a user's wallets. Its operations, one per network, are in operations.ts. */
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import type { OwnerAction } from "../../core/domain/owner.ts";
import type { Tx } from "../postgres/client.ts";
import { columnsOf } from "../postgres/columns-of.ts";
import { isNonceSpent } from "./operations.ts";
import { type OwnerChange, ownerChanges } from "./schema.ts";

type SqlPart = ReturnType<Tx>;

export type NewOwnerChange = {
  id: string;
  userId: string;
  action: OwnerAction;
  owner: Hex;
  passkeyId: string | undefined;
  /** The member whose passkey is added, if any. */
  memberId: string | undefined;
  name: string | undefined;
};

export async function insertOwnerChange(tx: Tx, change: NewOwnerChange): Promise<void> {
  await tx`
    insert into owner_changes (id, user_id, action, owner, passkey_id, name, member_id)
    values (
      ${change.id}, ${change.userId}, ${change.action}, ${change.owner}, ${change.passkeyId ?? null},
      ${change.name ?? null}, ${change.memberId ?? null}
    )`;
}

export async function findOwnerChange(
  tx: Tx,
  { id, userId }: { id: string; userId: string },
): Promise<OwnerChange | undefined> {
  const [row] = await tx<OwnerChange[]>`
    select ${columnsOf(tx, ownerChanges)}
    from owner_changes
    where id = ${id} and user_id = ${userId}`;
  return row;
}

/**
 * Needs `passkey`. Whether an addition of it to this user's wallets is signed and may still run. One that was relayed and failed is public: everyone
 * who has seen it can execute it while its nonce is free, on every network if it is for all.
 */
export function mayStillBeAdded(tx: Tx, userId: SqlPart) {
  return tx`exists (
    select from owner_changes change
    join wallet_operations op on op.owner_change_id = change.id
    join wallets wallet on wallet.id = op.wallet_id
    where change.user_id = ${userId}
      and change.action = 'ADD'
      and change.owner = '0x' || encode(passkey.public_key_x || passkey.public_key_y, 'hex')
      and (
        op.state in ('QUEUED', 'SIGNED', 'BROADCAST', 'MINED')
        or not ${isNonceSpent(tx)}
        and exists (
          select from wallet_operations relayed
          where relayed.owner_change_id = change.id
            and relayed.relayed_at is not null
            and (relayed.id = op.id or op.is_any_chain)
        )
      )
  )`;
}

export type WaitingAddition = {
  walletId: string;
  nonce: bigint;
  owner: Hex;
  /** Of its key, the first nonce that no recorded operation of the wallet has spent. */
  unspentNonce: bigint;
};

/**
 * Signed additions for every network that have not run on these wallets yet, in the order of their nonces; also those that a
 * reorganisation put back beside later operations (`is_extra`), since they run before these.
 */
export async function listWaitingAdditions(tx: Tx, walletIds: readonly string[]): Promise<WaitingAddition[]> {
  return tx<WaitingAddition[]>`
    select
      op.wallet_id, op.account_nonce as nonce, change.owner, (
        select coalesce(max(spent.nonce) + 1, key.first_nonce)
        from wallet_operation_events spent
        where spent.network = op.network
          and spent.sender = hex_of(wallet.address)
          and spent.nonce >= key.first_nonce
          and spent.nonce < key.first_nonce + 18446744073709551616
      ) as unspent_nonce
    from wallet_operations op
    join wallets wallet on wallet.id = op.wallet_id
    join owner_changes change on change.id = op.owner_change_id
    cross join lateral (
      select div(op.account_nonce, 18446744073709551616) * 18446744073709551616 as first_nonce
    ) key
    where op.wallet_id = any(${[...walletIds]}::text[])
      and op.is_any_chain
      and op.state in ('QUEUED', 'SIGNED', 'BROADCAST')
    order by op.account_nonce, op.is_extra, op.id`;
}

export type AddedOwner = { owner: Hex; name: string | null; confirmedAt: Date | null };

/** Owners that our changes have added to a wallet or are adding, the newest last. */
export async function listAddedOwners(tx: Tx, walletId: string): Promise<AddedOwner[]> {
  return tx<AddedOwner[]>`
    select change.owner, change.name, op.confirmed_at
    from wallet_operations op
    join owner_changes change on change.id = op.owner_change_id
    where op.wallet_id = ${walletId} and change.action = 'ADD'
    order by op.id`;
}

export type SignedAddition = {
  id: string;
  nonce: bigint;
  callData: Hex;
  callGas: bigint;
  verificationGas: bigint;
  signature: Hex;
  owner: Hex;
  /** The owner who signed. */
  signer: Hex;
};

/** Signed additions for every network that a wallet has run or will run, in the order of their nonces. */
export async function listSignedAdditions(tx: Tx, walletId: string): Promise<SignedAddition[]> {
  return tx<SignedAddition[]>`
    select
      op.id, op.account_nonce as nonce, op.call_data, op.call_gas, op.verification_gas, op.signature, change.owner,
      '0x' || encode(passkey.public_key_x || passkey.public_key_y, 'hex') as signer
    from wallet_operations op
    join owner_changes change on change.id = op.owner_change_id
    join passkeys passkey on passkey.id = op.passkey_id
    where op.wallet_id = ${walletId}
      and op.is_any_chain
      and op.signature is not null
      and (op.state in ('QUEUED', 'SIGNED', 'BROADCAST') or op.tx_hash is not null)
    order by op.account_nonce`;
}

/**
 * Whether an owner who has been removed from this wallet since, or is being removed, would own it on a further network, too: one of the
 * first owners, since they make the address, or one whose addition was signed for every network. That signature stays valid wherever it has
 * not run yet, and is public. One that ran was signed, also where only another sender had it; and one of which there is no row, since it was
 * made elsewhere or a restored backup has lost it, was an operation of the key `anyChainKey`.
 */
export async function hasRemovedOwner(
  tx: Tx,
  { id, network, address }: { id: string; network: NetworkId; address: Hex },
  anyChainKey: bigint,
): Promise<boolean> {
  const isRemoved = (owner: ReturnType<Tx>) => tx`(
    exists (
      select from account_changes removal
      where removal.network = ${network}
        and removal.wallet_address = ${address}
        and removal.type = 'OWNER_REMOVED'
        and removal.subject = ${owner}
    )
    or exists (
      select from owner_changes removing
      join wallet_operations removal on removal.owner_change_id = removing.id
      where removing.user_id = (select user_id from wallets where id = ${id})
        and removing.action = 'REMOVE'
        and removing.owner = ${owner}
        and removal.state in ('QUEUED', 'SIGNED', 'BROADCAST', 'MINED')
    )
  )`;
  const rows = await tx`
    select
    from wallet_operations op
    join owner_changes change on change.id = op.owner_change_id
    where op.wallet_id = ${id}
      and op.is_any_chain
      and (op.signature is not null or op.tx_hash is not null)
      and ${isRemoved(tx`change.owner`)}
    union all
    select
    from account_changes addition
    join wallet_operation_events run
      on run.network = addition.network and run.sender = addition.wallet_address and run.tx_hash = addition.tx_hash
    where addition.network = ${network}
      and addition.wallet_address = ${address}
      and addition.type = 'OWNER_ADDED'
      and div(run.nonce, 18446744073709551616) = ${anyChainKey.toString()}::numeric
      and ${isRemoved(tx`addition.subject`)}
    union all
    select
    from wallets wallet
    cross join unnest(wallet.owners) as first (owner)
    where wallet.id = ${id} and ${isRemoved(tx`first.owner`)}
    limit 1`;
  return rows.length > 0;
}

export type CopiedAddition = {
  id: string;
  copyId: string;
  walletId: string;
  network: NetworkId;
  ownerIndex: number;
  userOpHash: Hex;
  signature: Hex;
};

/** The signed operation of another network, QUEUED on this one. */
export async function copySignedAddition(tx: Tx, copy: CopiedAddition): Promise<void> {
  await tx`
    insert into wallet_operations (
      id, user_id, wallet_id, network, kind, state, user_op_hash, account_nonce, call_data, call_gas, verification_gas, terms,
      challenge_id, owner_change_id, is_any_chain, request_hash, request_id, passkey_id, owner_index, signature,
      assertion_hash, expires_at, queued_at
    )
    select
      ${copy.copyId}, user_id, ${copy.walletId}, ${copy.network}, kind, 'QUEUED', ${copy.userOpHash}, account_nonce,
      call_data, call_gas, verification_gas, terms, challenge_id, owner_change_id, true, request_hash, request_id,
      passkey_id, ${copy.ownerIndex}::int, ${copy.signature}, assertion_hash, expires_at, now()
    from wallet_operations
    where id = ${copy.id}`;
}
