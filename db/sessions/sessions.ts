/** Sessions: the row is the session; deleting it ends the session at once on every instance. */
import { SESSION_ABSOLUTE_LIFE_S, SESSION_LIFE_S } from "../../core/domain/session-lifetime.ts";
import { maySignIn } from "../auth/sign-in-passkeys.ts";
import type { Tx } from "../postgres/client.ts";
import { columnsOf } from "../postgres/columns-of.ts";
import { type Session, sessions, type User } from "../schema.ts";

export type SessionMethod = Session["method"];

/** Sign-ins that verified a passkey's registration or assertion. */
const PROVEN_BY_PASSKEY: ReadonlySet<SessionMethod> = new Set(["passkey", "wallet_setup"]);

type NewSession = Pick<Session, "id" | "userId" | "method" | "userAgent" | "clientAddress" | "passkeyId">;

export async function insertSession(tx: Tx, session: NewSession): Promise<Session> {
  const [row] = await tx<Session[]>`
    insert into sessions (
      id, user_id, method, expires_at, absolute_end_at, passkey_at, user_agent, client_address, passkey_id
    )
    values (
      ${session.id},
      ${session.userId},
      ${session.method},
      now() + make_interval(secs => ${SESSION_LIFE_S}),
      now() + make_interval(secs => ${SESSION_ABSOLUTE_LIFE_S}),
      case when ${PROVEN_BY_PASSKEY.has(session.method)} then now() end,
      ${session.userAgent},
      ${session.clientAddress},
      ${session.passkeyId}
    )
    returning ${columnsOf(tx, sessions)}`;
  if (!row) throw new Error("insert into sessions returned no row");
  return row;
}

/** The live session and its user in one query. */
export async function findLiveSession(
  tx: Tx,
  id: string,
  userId: string,
): Promise<{ session: LiveSession; user: User } | undefined> {
  const [row] = await tx<LiveRow[]>`
    select s.id as session_id, s.method, s.expires_at, s.absolute_end_at, s.passkey_at, s.last_seen_at, s.acted_for,
      u.id, u.email, u.display_name, u.status, u.created_at, u.updated_at, u.claim_policy, u.match_by_amount
    from sessions s
    join users u on u.id = s.user_id
    where s.id = ${id}
      and s.user_id = ${userId}
      and s.expires_at > now()
      and s.absolute_end_at > now()`;
  if (!row) return undefined;
  const { sessionId, method, expiresAt, absoluteEndAt, passkeyAt, lastSeenAt, actedFor, ...user } = row;
  const session = { id: sessionId, method, expiresAt, absoluteEndAt, passkeyAt, lastSeenAt, actedFor };
  return { session, user };
}

export type LiveSession = Pick<
  Session,
  "id" | "method" | "expiresAt" | "absoluteEndAt" | "passkeyAt" | "lastSeenAt" | "actedFor"
>;
type LiveRow = User & Omit<LiveSession, "id"> & { sessionId: string };

/**
 * Extends the session to one hour from now, never past its absolute end. Undefined when it no longer exists, or its passkey may not sign in any
 * more: a sign-in that was answered while the indexer wrote the passkey's removal is not among the sessions that the removal ends.
 */
export async function renewSession(tx: Tx, id: string): Promise<Session | undefined> {
  const [row] = await tx<Session[]>`
    update sessions
    set expires_at = least(now() + make_interval(secs => ${SESSION_LIFE_S}), absolute_end_at)
    where id = ${id} and expires_at > now() and ${maySignInAgain(tx)}
    returning ${columnsOf(tx, sessions)}`;
  return row;
}

/** Whether the passkey that opened one of `sessions`, if one did, may still sign in. */
export function maySignInAgain(tx: Tx) {
  return tx`not exists (
    select from passkeys passkey
    where passkey.id = sessions.passkey_id and not ${maySignIn(tx)}
  )`;
}

/**
 * Until the transaction ends, the session does not: what it makes is there to be found by whoever ends it. False when it has ended, or its passkey
 * may not sign in any more.
 */
export async function holdSession(tx: Tx, id: string): Promise<boolean> {
  const rows = await tx`
    select from sessions
    where id = ${id} and expires_at > now() and absolute_end_at > now() and ${maySignInAgain(tx)}
    for key share`;
  return rows.length === 1;
}

/** A user's live sessions: `currentId` first, then by last use. */
export async function listLiveSessions(
  tx: Tx,
  userId: string,
  { currentId, limit }: { currentId: string; limit: number },
): Promise<Session[]> {
  return tx<Session[]>`
    select ${columnsOf(tx, sessions)}
    from sessions
    where user_id = ${userId} and expires_at > now() and absolute_end_at > now()
    order by id = ${currentId} desc, last_seen_at desc, id
    limit ${limit}`;
}

/** Records where a session is used from, at most once in `everyS` seconds. */
export async function noteSessionSeen(
  tx: Tx,
  id: string,
  seen: { userAgent: string | null; clientAddress: string; everyS: number },
): Promise<void> {
  await tx`
    update sessions
    set last_seen_at = now(), user_agent = ${seen.userAgent}, client_address = ${seen.clientAddress}
    where id = ${id} and last_seen_at < now() - make_interval(secs => ${seen.everyS})`;
}

/** Records that a session acts for a merchant: it ends with the membership. */
export async function noteActedFor(tx: Tx, id: string, merchantId: string): Promise<void> {
  await tx`
    update sessions
    set acted_for = array_append(acted_for, ${merchantId}::text)
    where id = ${id} and not ${merchantId}::text = any(acted_for)`;
}

/** Ends the sessions of a member that have acted for this merchant. */
export async function deleteSessionsActingFor(
  tx: Tx,
  { userId, merchantId }: { userId: string; merchantId: string },
): Promise<void> {
  await tx`delete from sessions where user_id = ${userId} and ${merchantId}::text = any(acted_for)`;
}

/** Ends one live session of this user. False when there is none with this id. */
export async function deleteSessionOf(tx: Tx, userId: string, id: string): Promise<boolean> {
  const rows = await tx`
    delete from sessions
    where id = ${id} and user_id = ${userId} and expires_at > now() and absolute_end_at > now()
    returning id`;
  return rows.length > 0;
}

/** Ends all other sessions of a user; returns how many were live. */
export async function deleteOtherSessions(tx: Tx, userId: string, keptId: string): Promise<number> {
  const rows = await tx<{ isLive: boolean }[]>`
    delete from sessions
    where user_id = ${userId} and id <> ${keptId}
    returning expires_at > now() and absolute_end_at > now() as is_live`;
  return rows.filter(({ isLive }) => isLive).length;
}

/** Ends the sessions that a user's passkeys opened which may not sign in any more. */
export async function deleteSessionsOfRemovedPasskeys(tx: Tx, userId: string): Promise<void> {
  await tx`
    delete from sessions
    using passkeys passkey
    where sessions.user_id = ${userId} and passkey.id = sessions.passkey_id and not ${maySignIn(tx)}`;
}

export async function deleteSession(tx: Tx, id: string): Promise<boolean> {
  const rows = await tx`delete from sessions where id = ${id} returning id`;
  return rows.length > 0;
}

/** Ends every session of a user, or those of one sign-in method; used when what they prove is no longer sufficient. */
export async function deleteSessionsOf(tx: Tx, userId: string, method?: SessionMethod): Promise<void> {
  await tx`
    delete from sessions
    where user_id = ${userId} ${method ? tx`and method = ${method}` : tx``}`;
}
