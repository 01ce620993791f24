/** Identities at other providers, and pending sign-ins with them. The key is (issuer, subject), never the e-mail address. */
import type { Tx } from "../postgres/client.ts";
import type { User } from "../schema.ts";

export type IdentityKey = { issuer: string; subject: string };

export async function findUserByIdentity(
  tx: Tx,
  { issuer, subject }: IdentityKey,
): Promise<User | undefined> {
  const [user] = await tx<User[]>`
    select u.*
    from identities i
    join users u on u.id = i.user_id
    where i.issuer = ${issuer} and i.subject = ${subject}`;
  return user;
}

/** Has this user another identity of the same issuer? Call with the user's row locked. */
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

/** False when the identity already belongs to a user. */
export async function insertIdentity(tx: Tx, key: IdentityKey, userId: string): Promise<boolean> {
  const rows = await tx`
    insert into identities (issuer, subject, user_id)
    values (${key.issuer}, ${key.subject}, ${userId})
    on conflict do nothing
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
