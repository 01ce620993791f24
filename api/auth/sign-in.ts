/** Second step of a sign-in: verifies the passkey's response to the challenge. */

import { recordSecurityEvent } from "../../db/accounts/security-events.ts";
import { findUser, findUserByEmail } from "../../db/accounts/users.ts";
import { takeChallenge } from "../../db/auth/challenges.ts";
import { findPasskeyOfAnyone, noteUse } from "../../db/auth/passkeys.ts";
import { findSignInPasskey } from "../../db/auth/sign-in-passkeys.ts";
import type { Tx } from "../../db/postgres/client.ts";
import type { Passkey, Session, User } from "../../db/schema.ts";
import { activate } from "../accounts/activate-user.ts";
import type { Trace } from "../http/audit-trace.ts";
import type { ApiDeps } from "../http/deps.ts";
import { type Browser, startSession } from "../sessions/start-session.ts";
import type { Assertion } from "./passkey-wire.ts";
import { type Use, verifyAssertion } from "./verify-passkey.ts";

export type SignInRequest = {
  /** Undefined: a discoverable sign-in, in which the passkey identifies the user. */
  email: string | undefined;
  challengeId: string;
  response: Assertion;
  browser: Browser;
  trace: Trace;
};

export type SignIn = { ok: true; user: User; session: Session } | { ok: false };

/** The challenge is consumed first, in a separate transaction, so that a failed response also uses it up. */
export async function signIn(deps: ApiDeps, request: SignInRequest): Promise<SignIn> {
  const user = await findWhoSignsIn(deps, request);
  if (!user) return { ok: false };
  const meantFor = request.email === undefined ? null : user.id;
  const challenge = await takeChallenge(deps.sql, request.challengeId, {
    userId: meantFor,
    purpose: "login",
  });
  if (!challenge) return refuse(deps, user, request.trace, "the challenge is unknown, used or expired");
  const passkey = await findSignInPasskey(deps.sql, request.response.id, user.id);
  if (!passkey) return refuse(deps, user, request.trace, "the passkey is not this user's");
  const verified = await verifyAssertion(deps.config, {
    response: request.response,
    challenge: challenge.challenge,
    passkey,
    userVerification: "preferred",
  });
  if (!verified.ok) return refuse(deps, user, request.trace, verified.reason);
  return deps.sql.begin(async (tx): Promise<SignIn> => {
    if (!(await notePasskeyUse(tx, { passkey, use: verified.use, trace: request.trace })))
      return refuse({ ...deps, sql: tx }, user, request.trace, "the passkey's counter did not increase");
    const active =
      user.status === "ACTIVE"
        ? user
        : await activate(tx, deps, { user, passkey, requestId: request.trace.requestId });
    const session = await startSession(tx, {
      ...request,
      user: active,
      method: "passkey",
      passkeyId: passkey.id,
    });
    return { ok: true, user: active, session };
  });
}

async function findWhoSignsIn(
  { sql }: ApiDeps,
  { email, response }: Pick<SignInRequest, "email" | "response">,
): Promise<User | undefined> {
  if (email !== undefined) return findUserByEmail(sql, email);
  const passkey = await findPasskeyOfAnyone(sql, response.id);
  return passkey && findUser(sql, passkey.userId);
}

/** Stores the counter. A synced passkey whose counter decreases is accepted, and recorded in the security trail. */
export async function notePasskeyUse(
  tx: Tx,
  { passkey, use, trace }: { passkey: Passkey; use: Use; trace: Trace },
): Promise<boolean> {
  if (!(await noteUse(tx, passkey.id, use))) return false;
  if (use.isRegression) {
    const details = { stored: Number(passkey.counter), reported: Number(use.counter) };
    await recordSecurityEvent(tx, {
      userId: passkey.userId,
      type: "passkey_counter_regression",
      ...trace,
      details,
    });
  }
  return true;
}

async function refuse(
  { sql, log }: { sql: Tx; log: ApiDeps["log"] },
  user: User,
  trace: Trace,
  reason: string,
): Promise<{ ok: false }> {
  log.info({ requestId: trace.requestId, userId: user.id, reason }, "sign-in refused");
  await recordSecurityEvent(sql, { userId: user.id, type: "sign_in_refused", ...trace });
  return { ok: false };
}
