/** Which of a person's passkeys own a wallet, or may still come to own one. */
import { mayOwnWalletOf, maySignIn } from "../auth/sign-in-passkeys.ts";
import type { Tx } from "../postgres/client.ts";
import { columnsOf } from "../postgres/columns-of.ts";
import { type Passkey, passkeys } from "../schema.ts";
import { mayStillBeAdded } from "./owner-changes.ts";

export type OwnerPasskey = Passkey & { signsIn: boolean };

/**
 * Passkeys that own a wallet of the user, or of a merchant that the user is a member of, and those whose addition can still be signed or run, oldest
 * first. Excluded, because they sign nothing: those whose addition was never signed or has failed permanently, and those removed from every wallet.
 */
export async function listOwnerPasskeys(tx: Tx, userId: string, rpId: string): Promise<OwnerPasskey[]> {
  return tx<OwnerPasskey[]>`
    select ${columnsOf(tx, passkeys, "passkey")}, ${maySignIn(tx)} as signs_in
    from passkeys passkey
    where passkey.user_id = ${userId}
      and passkey.rp_id = ${rpId}
      and exists (
        select
        from (
          select ${userId} as id
          union all
          select members.merchant_id from members where members.user_id = ${userId}
        ) account
        where ${mayOwnWalletOf(tx, tx`account.id`)}
          or ${mayStillBeAdded(tx, tx`account.id`)}
          or ${awaitsSignature(tx)}
      )
    order by passkey.created_at, passkey.id`;
}

/** Needs `passkey` and `account`. */
function awaitsSignature(tx: Tx) {
  return tx`exists (
    select from owner_changes change
    join wallet_operations op on op.owner_change_id = change.id
    where change.user_id = account.id
      and change.action = 'ADD'
      and change.owner = '0x' || encode(passkey.public_key_x || passkey.public_key_y, 'hex')
      and op.state = 'AWAITING_SIGNATURE'
      and op.expires_at > now()
  )`;
}
