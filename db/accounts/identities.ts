/** Identities at other providers, and pending sign-ins with them. The key is (issuer, subject), never the e-mail address. */
import { maySignIn } from "../auth/sign-in-passkeys.ts";
import type { Tx } from "../postgres/client.ts";
import { columnsOf } from "../postgres/columns-of.ts";
import { type User, users } from "../schema.ts";
import { maySignInAgain } from "../sessions/sessions.ts";
import { lockUser } from "./users.ts";

export type IdentityKey = { issuer: string; subject: string };

/** `email`: the address the provider currently reports, so that the owner recognises the identity. */
export type NamedIdentity = IdentityKey & { email: string | null };

export async function findUserByIdentity(
  tx: Tx,
  { issuer, subject }: IdentityKey,
): Promise<User | undefined> {
  const [user] = await tx<User[]>`
    select ${columnsOf(tx, users, "u")}
    from identities i
    join users u on u.id = i.user_id
    where i.issuer = ${issuer} and i.subject = ${subject}`;
  return user;
}

/** As above, with the user's row locked: the identity is unlinked either before this, or after this transaction has committed. */
export async function lockUserByIdentity(tx: Tx, key: IdentityKey): Promise<User | undefined> {
  const found = await findUserByIdentity(tx, key);
  if (!found) return undefined;
  await lockUser(tx, found.id);
  return findUserByIdentity(tx, key);
}

/** Whether this user has another identity of the same issuer. Call with the user's row locked. */
export async function hasOtherSubject(
  tx: Tx,
  { issuer, subject }: IdentityKey,
  userId: string,
): Promise<boolean> {
  const rows = await tx`
    select 1
    from identities
    where user_id = ${userId} and issuer = ${issuer} and subject <> ${subject}
    limit 1`;
  return rows.length > 0;
}

/** Whether this user has ever unlinked an identity of the issuer. Call with the user's row locked. */
export async function hasUnlinked(tx: Tx, issuer: string, userId: string): Promise<boolean> {
  const rows = await tx`select 1 from unlinked_issuers where user_id = ${userId} and issuer = ${issuer}`;
  return rows.length > 0;
}

/** False when the identity already belongs to a user. */
export async function insertIdentity(
  tx: Tx,
  { issuer, subject, email }: NamedIdentity,
  userId: string,
): Promise<boolean> {
  const rows = await tx`
    insert into identities (issuer, subject, user_id, email)
    values (${issuer}, ${subject}, ${userId}, ${email})
    on conflict do nothing
    returning user_id`;
  return rows.length > 0;
}

/** The provider may report a new address, or the identity was linked before addresses were stored. */
export async function updateIdentityEmail(
  tx: Tx,
  { issuer, subject, email }: NamedIdentity,
  userId: string,
): Promise<void> {
  await tx`
    update identities
    set email = ${email}
    where issuer = ${issuer} and subject = ${subject} and user_id = ${userId}
      and email is distinct from ${email}::text`;
}

export type Identity = NamedIdentity & { linkedAt: Date };

/** Maximum identities per account. */
export const IDENTITIES_MAX = 5;

/** Oldest first. */
export async function listIdentities(tx: Tx, userId: string): Promise<Identity[]> {
  return tx<Identity[]>`
    select issuer, subject, email, created_at as linked_at
    from identities
    where user_id = ${userId}
    order by created_at, issuer, subject
    limit ${IDENTITIES_MAX}`;
}

/**
 * Links an identity to the user of a session, which must still be live. False when the identity already belongs to a user, when the
 * user has IDENTITIES_MAX, or when the session has ended or its passkey may not sign in any more. Call with the user's row locked.
 */
export async function insertIdentityOfSession(
  tx: Tx,
  { issuer, subject, email }: NamedIdentity,
  { sessionId, userId }: { sessionId: string; userId: string },
): Promise<boolean> {
  const rows = await tx`
    insert into identities (issuer, subject, user_id, email)
    select ${issuer}, ${subject}, live.user_id, ${email}
    from (
      select user_id
      from sessions
      where id = ${sessionId} and user_id = ${userId} and expires_at > now() and absolute_end_at > now()
        and ${maySignInAgain(tx)}
      for update
    ) live
    where (select count(*) from identities where identities.user_id = live.user_id) < ${IDENTITIES_MAX}
    on conflict do nothing
    returning user_id`;
  return rows.length > 0;
}

/**
 * Unlinks an identity and remembers that its issuer was unlinked. False when it is not the user's, or when the account would be left without a
 * passkey or another identity to sign in with. Call with the user's row locked.
 */
export async function deleteIdentity(
  tx: Tx,
  { issuer, subject }: IdentityKey,
  { userId, rpId }: { userId: string; rpId: string },
): Promise<boolean> {
  const rows = await tx`
    with unlinked as (
      delete from identities
      where issuer = ${issuer} and subject = ${subject} and user_id = ${userId}
        and (
          exists (
            select from identities other
            where other.user_id = ${userId} and (other.issuer, other.subject) <> (${issuer}, ${subject})
          )
          or exists (
            select from passkeys passkey
            where passkey.user_id = ${userId} and passkey.rp_id = ${rpId} and ${maySignIn(tx)}
          )
        )
      returning user_id, issuer
    )
    insert into unlinked_issuers (user_id, issuer)
    select user_id, issuer
    from unlinked
    on conflict (user_id, issuer) do update
    set unlinked_at = now()
    returning user_id`;
  return rows.length > 0;
}

export type OauthFlow = { codeVerifier: string; nonce: string };

export async function insertOauthFlow(
  tx: Tx,
  stateHash: Uint8Array,
  flow: OauthFlow & { lifeS: number },
): Promise<void> {
  await tx`
    insert into oauth_flows (state_hash, code_verifier, nonce, expires_at)
    values (${stateHash}, ${flow.codeVerifier}, ${flow.nonce}, now() + make_interval(secs => ${flow.lifeS}))`;
}

/** Consumes a flow. Undefined when it is unknown, used or expired. */
export async function takeOauthFlow(tx: Tx, stateHash: Uint8Array): Promise<OauthFlow | undefined> {
  const [row] = await tx<(OauthFlow & { isLive: boolean })[]>`
    delete from oauth_flows
    where state_hash = ${stateHash}
    returning code_verifier, nonce, expires_at > now() as is_live`;
  return row?.isLive ? { codeVerifier: row.codeVerifier, nonce: row.nonce } : undefined;
}
