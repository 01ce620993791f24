/**
 * Which passkeys may sign in: owners of one of the user's wallets, by the owner changes on the chain. An addition counts once it is
 * deep enough, a removal immediately.
 */
import type { Tx } from "../postgres/client.ts";
import { columnsOf } from "../postgres/columns-of.ts";
import { type Passkey, passkeys } from "../schema.ts";

type SqlPart = ReturnType<Tx>;

/**
 * Passkeys that may sign in, oldest first: owners of one of the user's wallets, or all if the user has no wallet yet. A passkey
 * prepared as an owner may not sign in before its change is confirmed, nor after it is removed from every wallet.
 */
export async function listSignInPasskeys(tx: Tx, userId: string, rpId: string): Promise<Passkey[]> {
  return tx<Passkey[]>`
    select ${columnsOf(tx, passkeys, "passkey")}
    from passkeys passkey
    where passkey.user_id = ${userId} and passkey.rp_id = ${rpId} and ${maySignIn(tx)}
    order by passkey.created_at, passkey.id`;
}

export async function findSignInPasskey(tx: Tx, id: string, userId: string): Promise<Passkey | undefined> {
  const [row] = await tx<Passkey[]>`
    select ${columnsOf(tx, passkeys, "passkey")}
    from passkeys passkey
    where passkey.id = ${id} and passkey.user_id = ${userId} and ${maySignIn(tx)}`;
  return row;
}

/** Needs `passkey`. */
export function maySignIn(tx: Tx) {
  return tx`(
    not exists (select from wallets where wallets.user_id = passkey.user_id)
    or ${ownsWalletOf(tx, tx`passkey.user_id`)}
  )`;
}

/** Whether `passkey` is an owner of one of this user's wallets. An addition counts at depth, a removal immediately. */
export function ownsWalletOf(tx: Tx, userId: SqlPart) {
  return isOwner(tx, {
    userId,
    counts: tx`change.type = 'OWNER_REMOVED' or change.confirmed_at is not null`,
  });
}

/** Whether `passkey` may be an owner of one of this user's wallets: an addition counts immediately, a removal at depth. */
export function mayOwnWalletOf(tx: Tx, userId: SqlPart) {
  return isOwner(tx, { userId, counts: tx`change.type = 'OWNER_ADDED' or change.confirmed_at is not null` });
}

function isOwner(tx: Tx, { userId, counts }: { userId: SqlPart; counts: SqlPart }) {
  const owner = tx`'0x' || encode(passkey.public_key_x || passkey.public_key_y, 'hex')`;
  return tx`exists (
    select from wallets
    where wallets.user_id = ${userId}
      and coalesce(
        (
          select change.type = 'OWNER_ADDED'
          from account_changes change
          where change.network = wallets.network
            and change.wallet_address = hex_of(wallets.address)
            and change.subject = ${owner}
            and change.type in ('OWNER_ADDED', 'OWNER_REMOVED')
            and (${counts})
          order by change.block_number desc, change.log_index desc
          limit 1
        ),
        ${owner} = any(wallets.owners)
      )
  )`;
}
