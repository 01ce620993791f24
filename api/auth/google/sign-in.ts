/** Which account a Google identity opens. The identity is (issuer, subject); the e-mail address matters only when they are first linked. */
import { newUserId } from "../../../core/domain/ids.ts";
import { insertIdentity, lockUserByIdentity, updateIdentityEmail } from "../../../db/accounts/identities.ts";
import { recordSecurityEvent } from "../../../db/accounts/security-events.ts";
import { insertUser, lockUserByEmail, markVerified } from "../../../db/accounts/users.ts";
import { deleteChallengesOf } from "../../../db/auth/challenges.ts";
import { recordEvents } from "../../../db/events/events.ts";
import type { Tx } from "../../../db/postgres/client.ts";
import type { Session, User } from "../../../db/schema.ts";
import { deleteSessionsOf } from "../../../db/sessions/sessions.ts";
import { emailSchema } from "../../accounts/email-address.ts";
import type { Trace } from "../../http/audit-trace.ts";
import type { ApiDeps } from "../../http/deps.ts";
import { type Browser, startSession } from "../../sessions/start-session.ts";
import { type LinkByEmailRefusal, whyNotLinkedByEmail } from "./link-by-email.ts";
import type { GoogleIdentity } from "./provider.ts";

export type GoogleRefusal = "email_not_verified" | LinkByEmailRefusal;
type Refused = { ok: false; reason: GoogleRefusal };
type Meeting = { ok: true; user: User } | Refused;
type Outcome = { ok: true; session: Session } | Refused;

export async function signInWithGoogle(
  { sql }: Pick<ApiDeps, "sql">,
  given: { identity: GoogleIdentity; browser: Browser; trace: Trace },
): Promise<Outcome> {
  const { identity, trace } = given;
  if (!identity.isEmailVerified || !emailSchema.safeParse(identity.email).success)
    return { ok: false, reason: "email_not_verified" };
  return sql.begin(async (tx): Promise<Outcome> => {
    const known = await lockUserByIdentity(tx, identity);
    if (known) await updateIdentityEmail(tx, identity, known.id);
    const met: Meeting = known ? { ok: true, user: known } : await meet(tx, identity, trace);
    if (!met.ok) return met;
    const session = await startSession(tx, { ...given, user: met.user, method: "google" });
    return { ok: true, session };
  });
}

/**
 * First sign-in: a new account, or the existing account of this address if link-by-email.ts allows it.
 */
async function meet(tx: Tx, identity: GoogleIdentity, trace: Trace): Promise<Meeting> {
  const created = await insertUser(tx, {
    id: newUserId(),
    email: identity.email,
    status: "WALLET_SETUP_PENDING",
  });
  const user = created ?? (await lockUserByEmail(tx, identity.email));
  if (!user) throw new Error("the address was taken a moment ago and is free now");
  if (created) {
    const about = { userId: user.id, subjectId: user.id };
    await recordEvents(tx, [
      { ...about, type: "user.registered" },
      { ...about, type: "user.verified" },
    ]);
  } else {
    const reason = await whyNotLinkedByEmail(tx, identity, user);
    if (reason) {
      await recordSecurityEvent(tx, { userId: user.id, type: "identity_refused", ...trace });
      return { ok: false, reason };
    }
  }
  if (await insertIdentity(tx, identity, user.id))
    await recordSecurityEvent(tx, { userId: user.id, type: "identity_linked", ...trace });
  return { ok: true, user: user.status === "REGISTERED" ? await verify(tx, user) : user };
}

async function verify(tx: Tx, user: User): Promise<User> {
  const verified = await markVerified(tx, user.id);
  if (!verified) throw new Error(`user ${user.id} is no longer REGISTERED`);
  await deleteSessionsOf(tx, user.id);
  await deleteChallengesOf(tx, user.id);
  await recordEvents(tx, [{ userId: user.id, type: "user.verified", subjectId: user.id }]);
  return verified;
}
