/** Passkeys: owner, public key and signature counter of each credential. */
import type { Tx } from "../postgres/client.ts";
import { columnsOf } from "../postgres/columns-of.ts";
import { type Passkey, passkeys } from "../schema.ts";

type SqlPart = ReturnType<Tx>;

/** Oldest first; only those of this relying party. */
export async function listPasskeys(tx: Tx, userId: string, rpId: string): Promise<Passkey[]> {
  return tx<Passkey[]>`
    select ${columnsOf(tx, passkeys)} from passkeys where user_id = ${userId} and rp_id = ${rpId} order by created_at, id`;
}

/** Those of the user and of its members with the role owner, oldest first: what may be an owner of the user's wallets. */
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

/**
 * Those that sign in, oldest first: owners of one of the user's wallets, and all of a user who has no wallet yet. A passkey that was
 * prepared as an owner is none before its change is confirmed, and none once it is removed from every wallet.
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

/** Whether `passkey` is an owner of one of this user's wallets. An addition counts at depth, a removal at once. */
export function ownsWalletOf(tx: Tx, userId: SqlPart) {
  return isOwner(tx, {
    userId,
    counts: tx`change.type = 'OWNER_REMOVED' or change.confirmed_at is not null`,
  });
}

/** Whether `passkey` may be an owner of one of this user's wallets: an addition counts at once, a removal at depth. */
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

/** Whose passkey it is, where no user is known yet. */
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
 * Records a use. False when the counter of a single-device credential did not increase: a concurrent use was faster, or the
 * credential was cloned. Synced credentials are recorded whatever their counter.
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
