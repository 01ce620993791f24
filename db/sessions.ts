/** Sessions: a session lives in its row alone; deleting it ends it at once on every instance. */
import type { Tx } from "./client.ts";
import type { Session, User } from "./schema.ts";

export type SessionMethod = Session["method"];

/** Lifetime since the last renewal, and since sign-in. */
export const SESSION_LIFE_S = 3_600;
export const SESSION_ABSOLUTE_LIFE_S = 86_400;

export async function insertSession(
  tx: Tx,
  session: { id: string; userId: string; method: SessionMethod },
): Promise<Session> {
  const [row] = await tx<Session[]>`
    insert into sessions (id, user_id, method, expires_at, absolute_end_at)
    values (
      ${session.id},
      ${session.userId},
      ${session.method},
      now() + make_interval(secs => ${SESSION_LIFE_S}),
      now() + make_interval(secs => ${SESSION_ABSOLUTE_LIFE_S})
    )
    returning *`;
  if (!row) throw new Error("insert into sessions returned no row");
  return row;
}

/** The live session and its user in one look. */
export async function findLiveSession(
  tx: Tx,
  id: string,
  userId: string,
): Promise<{ session: Omit<Session, "userId" | "createdAt">; user: User } | undefined> {
  const [row] = await tx<LiveRow[]>`
    select s.id as session_id, s.method, s.expires_at, s.absolute_end_at,
      u.id, u.email, u.display_name, u.status, u.created_at, u.updated_at
    from sessions s
    join users u on u.id = s.user_id
    where s.id = ${id}
      and s.user_id = ${userId}
      and s.expires_at > now()
      and s.absolute_end_at > now()`;
  if (!row) return undefined;
  const { sessionId, method, expiresAt, absoluteEndAt, ...user } = row;
  return { session: { id: sessionId, method, expiresAt, absoluteEndAt }, user };
}

type LiveRow = User & Pick<Session, "method" | "expiresAt" | "absoluteEndAt"> & { sessionId: string };

/** Moves the end to one hour from now, never past the absolute end. Undefined when the session is gone. */
export async function renewSession(tx: Tx, id: string): Promise<Session | undefined> {
  const [row] = await tx<Session[]>`
    update sessions
    set expires_at = least(now() + make_interval(secs => ${SESSION_LIFE_S}), absolute_end_at)
    where id = ${id} and expires_at > now()
    returning *`;
  return row;
}

export async function deleteSession(tx: Tx, id: string): Promise<boolean> {
  const rows = await tx`delete from sessions where id = ${id} returning id`;
  return rows.length > 0;
}

/** Ends every session of a user, or those begun in one way; used when what they prove is no longer enough. */
export async function deleteSessionsOf(tx: Tx, userId: string, method?: SessionMethod): Promise<void> {
  await tx`
    delete from sessions
    where user_id = ${userId} ${method ? tx`and method = ${method}` : tx``}`;
}
