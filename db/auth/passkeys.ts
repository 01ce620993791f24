/** Passkeys: owner, public key and signature counter of each credential. */
import type { Tx } from "../postgres/client.ts";
import { columnsOf } from "../postgres/columns-of.ts";
import { type Passkey, passkeys } from "../schema.ts";

/** Oldest first; only those of this relying party. */
export async function listPasskeys(tx: Tx, userId: string, rpId: string): Promise<Passkey[]> {
  return tx<Passkey[]>`
    select ${columnsOf(tx, passkeys)} from passkeys where user_id = ${userId} and rp_id = ${rpId} order by created_at, id`;
}

/** The passkeys of the user and of its members with the role owner, oldest first: those that may own the user's wallets. */
export async function listPasskeysOfAccount(tx: Tx, userId: string, rpId: string): Promise<Passkey[]> {
  return tx<Passkey[]>`
    select ${columnsOf(tx, passkeys)}
    from passkeys
    where rp_id = ${rpId}
      and (
        user_id = ${userId}
        or user_id in (select members.user_id from members where merchant_id = ${userId} and role = 'owner')
      )
    order by created_at, id`;
}

/** Other relying parties that stored credentials belong to, most frequent first. */
export async function listForeignRpIds(tx: Tx, rpId: string): Promise<{ rpId: string; count: number }[]> {
  return tx<{ rpId: string; count: number }[]>`
    select rp_id, count(*)::int as count
    from passkeys
    where rp_id <> ${rpId}
    group by rp_id
    order by count desc, rp_id`;
}

export async function findPasskey(tx: Tx, id: string, userId: string): Promise<Passkey | undefined> {
  const [row] = await tx<
    Passkey[]
  >`select ${columnsOf(tx, passkeys)} from passkeys where id = ${id} and user_id = ${userId}`;
  return row;
}

/** The owner of a passkey, when no user is known yet. */
export async function findPasskeyOfAnyone(tx: Tx, id: string): Promise<Passkey | undefined> {
  const [row] = await tx<Passkey[]>`select ${columnsOf(tx, passkeys)} from passkeys where id = ${id}`;
  return row;
}

/** Undefined when the user has no such passkey for this relying party. */
export async function renamePasskey(
  tx: Tx,
  own: { id: string; userId: string; rpId: string },
  name: string | null,
): Promise<Passkey | undefined> {
  const [row] = await tx<Passkey[]>`
    update passkeys
    set name = ${name}
    where id = ${own.id} and user_id = ${own.userId} and rp_id = ${own.rpId}
    returning ${columnsOf(tx, passkeys)}`;
  return row;
}

export type NewPasskey = Omit<Passkey, "createdAt" | "lastUsedAt" | "name">;

/** Undefined when the credential is already registered, by any user. */
export async function insertPasskey(tx: Tx, passkey: NewPasskey): Promise<Passkey | undefined> {
  const [row] = await tx<Passkey[]>`
    insert into passkeys (
      id, user_id, cose_key, public_key_x, public_key_y, counter, device_type, backed_up, transports, rp_id, aaguid
    )
    values (
      ${passkey.id},
      ${passkey.userId},
      ${passkey.coseKey},
      ${passkey.publicKeyX},
      ${passkey.publicKeyY},
      ${passkey.counter},
      ${passkey.deviceType},
      ${passkey.backedUp},
      ${passkey.transports},
      ${passkey.rpId},
      ${passkey.aaguid}
    )
    on conflict (id) do nothing
    returning ${columnsOf(tx, passkeys)}`;
  return row;
}

/**
 * Records a use. False when the counter of a single-device credential did not increase: a concurrent use came first, or
 * the credential was cloned. Synced credentials are recorded whatever their counter.
 */
export async function noteUse(
  tx: Tx,
  id: string,
  use: { counter: bigint; backedUp: boolean; isSynced: boolean },
): Promise<boolean> {
  const rows = await tx`
    update passkeys
    set counter = greatest(counter, ${use.counter}::bigint), backed_up = ${use.backedUp}, last_used_at = now()
    where id = ${id}
      and (${use.isSynced} or counter < ${use.counter}::bigint or (counter = 0 and ${use.counter}::bigint = 0))
    returning id`;
  return rows.length > 0;
}
