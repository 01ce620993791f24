/**
 * Links a Google account to the account of the session that began the link; the e-mail address does
 * not matter. For accounts with the same address at sign-in: sign-in.ts.
 */
import {
  findUserByIdentity,
  insertIdentityOfSession,
  updateIdentityEmail,
} from "../../../db/accounts/identities.ts";
import { recordSecurityEvent } from "../../../db/accounts/security-events.ts";
import { lockUser } from "../../../db/accounts/users.ts";
import { findLiveSession } from "../../../db/sessions/sessions.ts";
import { emailSchema } from "../../accounts/email-address.ts";
import type { Trace } from "../../http/audit-trace.ts";
import type { ApiDeps } from "../../http/deps.ts";
import { verifySessionToken } from "../../http/session-cookie.ts";
import type { GoogleIdentity } from "./provider.ts";

export type LinkRefusal = "email_not_verified" | "session_ended" | "linked_elsewhere" | "too_many";
type Outcome = { ok: true } | { ok: false; reason: LinkRefusal };

/**
 * `token`: of the session, whose own cookie is not sent with the provider's redirect. Linking again only
 * updates the address.
 */
export async function linkGoogleAccount(
  { sql, config }: Pick<ApiDeps, "sql" | "config">,
  given: { identity: GoogleIdentity; token: string | undefined; trace: Omit<Trace, "actorId"> },
): Promise<Outcome> {
  const { identity, token, trace } = given;
  if (!identity.isEmailVerified) return { ok: false, reason: "email_not_verified" };
  const claims = token ? await verifySessionToken(config, token) : undefined;
  if (!claims) return { ok: false, reason: "session_ended" };
  const { sid: sessionId, sub: userId } = claims;
  const named = { ...identity, email: emailSchema.safeParse(identity.email).data ?? null };
  return sql.begin(async (tx): Promise<Outcome> => {
    await lockUser(tx, userId);
    const event = { userId, actorId: userId, ...trace };
    if (await insertIdentityOfSession(tx, named, { sessionId, userId })) {
      await recordSecurityEvent(tx, {
        ...event,
        type: "identity_linked",
        details: { email: identity.email },
      });
      return { ok: true };
    }
    if (!(await findLiveSession(tx, sessionId, userId))) return { ok: false, reason: "session_ended" };
    const owner = await findUserByIdentity(tx, identity);
    if (owner?.id === userId) {
      await updateIdentityEmail(tx, named, userId);
      return { ok: true };
    }
    await recordSecurityEvent(tx, { ...event, type: "identity_refused" });
    return { ok: false, reason: owner ? "linked_elsewhere" : "too_many" };
  });
}
