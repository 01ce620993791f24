/**
 * The contents of a user's wallet file: wallets with the RP id of their passkey, and every passkey of the user and of its members with the role
 * owner.
 */
import type { PasskeyOfFile, WalletOfFile } from "../../core/domain/wallet-file.ts";
import type { Tx } from "../postgres/client.ts";

/** Oldest wallet first. */
export async function listWalletsOfFile(tx: Tx, userId: string): Promise<WalletOfFile[]> {
  return tx<WalletOfFile[]>`
    select w.network, w.address, w.factory, w.owners, w.salt_nonce, p.rp_id
    from wallets w
    join passkeys p on p.id = w.passkey_id
    where w.user_id = ${userId}
    order by w.created_at, w.network`;
}

export async function listPasskeysOfFile(tx: Tx, userId: string): Promise<PasskeyOfFile[]> {
  return tx<PasskeyOfFile[]>`
    select id, public_key_x, public_key_y, transports, rp_id
    from passkeys
    where user_id = ${userId}
      or user_id in (select members.user_id from members where merchant_id = ${userId} and role = 'owner')
    order by created_at, id`;
}
