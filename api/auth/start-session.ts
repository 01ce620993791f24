/** Signs a user in: a new session id each time, the one the browser had before ends. */
import { newSessionId } from "../../core/domain/ids.ts";
import type { Tx } from "../../db/client.ts";
import type { Session, User } from "../../db/schema.ts";
import { recordSecurityEvent } from "../../db/security-events.ts";
import { deleteSession, insertSession, type SessionMethod } from "../../db/sessions.ts";
import type { ApiConfig } from "../config.ts";
import { readCookie, SESSION_COOKIE, tokenKeyOf } from "../http/session-cookie.ts";
import { verifySessionToken } from "../http/session-token.ts";
import type { Trace } from "../http/trace.ts";

export async function startSession(
  tx: Tx,
  given: { user: User; method: SessionMethod; previousSessionId: string | undefined; trace: Trace },
): Promise<Session> {
  if (given.previousSessionId) await deleteSession(tx, given.previousSessionId);
  const session = await insertSession(tx, {
    id: newSessionId(),
    userId: given.user.id,
    method: given.method,
  });
  await recordSecurityEvent(tx, {
    userId: given.user.id,
    type: "sign_in",
    ...given.trace,
    details: { method: given.method },
  });
  return session;
}

/** The session a request's cookie speaks of, if we signed it. */
export function presentedSessionId(request: Request, config: ApiConfig): string | undefined {
  const cookie = readCookie(request.headers.get("cookie"), SESSION_COOKIE);
  if (!cookie) return undefined;
  return verifySessionToken(tokenKeyOf(config), cookie, Math.floor(Date.now() / 1_000))?.sid;
}
