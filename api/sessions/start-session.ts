/** Signs a user in: always a new session id; the browser's previous session ends. */
import { newSessionId } from "../../core/domain/ids.ts";
import { recordSecurityEvent } from "../../db/accounts/security-events.ts";
import type { Tx } from "../../db/postgres/client.ts";
import type { Session, User } from "../../db/schema.ts";
import { deleteSession, insertSession, type SessionMethod } from "../../db/sessions/sessions.ts";
import type { ApiConfig } from "../config.ts";
import type { Trace } from "../http/audit-trace.ts";
import { readCookie, SESSION_COOKIE, verifySessionToken } from "../http/session-cookie.ts";
import { userAgentOf } from "../http/user-agent.ts";

export type Browser = { previousSessionId: string | undefined; userAgent: string | null };

export async function startSession(
  tx: Tx,
  given: {
    user: User;
    method: SessionMethod;
    /** The method that authenticated the user. */
    passkeyId?: string;
    browser: Browser;
    trace: Trace;
  },
): Promise<Session> {
  const { previousSessionId, userAgent } = given.browser;
  if (previousSessionId) await deleteSession(tx, previousSessionId);
  const session = await insertSession(tx, {
    id: newSessionId(),
    userId: given.user.id,
    method: given.method,
    userAgent,
    clientAddress: given.trace.clientAddress,
    passkeyId: given.passkeyId ?? null,
  });
  await recordSecurityEvent(tx, {
    userId: given.user.id,
    type: "sign_in",
    ...given.trace,
    details: { method: given.method },
  });
  return session;
}

/** The browser that signs in, and the session in its cookie if the cookie's signature is valid. */
export async function browserOf(request: Request, config: ApiConfig): Promise<Browser> {
  const cookie = readCookie(request.headers.get("cookie"), SESSION_COOKIE);
  const claims = cookie ? await verifySessionToken(config, cookie) : undefined;
  return { previousSessionId: claims?.sid, userAgent: userAgentOf(request) };
}
