/** Owner changes: what one signature adds to or removes from a user's wallets. Its operations, one a network, are in operations.ts. */
import type { Hex } from "../../core/domain/networks.ts";
import type { OwnerAction } from "../../core/domain/owner.ts";
import type { Tx } from "../postgres/client.ts";
import type { OwnerChange } from "./schema.ts";

export type NewOwnerChange = {
  id: string;
  userId: string;
  action: OwnerAction;
  owner: Hex;
  passkeyId: string | undefined;
  name: string | undefined;
};

export async function insertOwnerChange(tx: Tx, change: NewOwnerChange): Promise<void> {
  await tx`
    insert into owner_changes (id, user_id, action, owner, passkey_id, name)
    values (
      ${change.id}, ${change.userId}, ${change.action}, ${change.owner}, ${change.passkeyId ?? null},
      ${change.name ?? null}
    )`;
}

export async function findOwnerChange(
  tx: Tx,
  { id, userId }: { id: string; userId: string },
): Promise<OwnerChange | undefined> {
  const [row] = await tx<OwnerChange[]>`
    select *
    from owner_changes
    where id = ${id} and user_id = ${userId}`;
  return row;
}

export type WaitingAddition = { walletId: string; nonce: bigint; owner: Hex };

/** Signed additions for every network that have not run on these wallets yet, in the order of their nonces. */
export async function listWaitingAdditions(tx: Tx, walletIds: readonly string[]): Promise<WaitingAddition[]> {
  return tx<WaitingAddition[]>`
    select op.wallet_id, op.account_nonce as nonce, change.owner
    from wallet_operations op
    join owner_changes change on change.id = op.owner_change_id
    where op.wallet_id = any(${[...walletIds]}::text[])
      and op.is_any_chain
      and not op.is_extra
      and op.state in ('QUEUED', 'SIGNED', 'BROADCAST')
    order by op.account_nonce`;
}

export type AddedOwner = { owner: Hex; name: string | null; confirmedAt: Date | null };

/** Owners that changes of ours have added to a wallet or are adding, the newest last. */
export async function listAddedOwners(tx: Tx, walletId: string): Promise<AddedOwner[]> {
  return tx<AddedOwner[]>`
    select change.owner, change.name, op.confirmed_at
    from wallet_operations op
    join owner_changes change on change.id = op.owner_change_id
    where op.wallet_id = ${walletId} and change.action = 'ADD'
    order by op.id`;
}
