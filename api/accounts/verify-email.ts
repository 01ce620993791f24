/**
 * Verifies an e-mail code: moves REGISTERED to WALLET_SETUP_PENDING and signs in, or lets a user resume an unfinished setup.
 * It never signs in an ACTIVE user, who needs the passkey: access to a mailbox must not give access to a wallet.
 */
import { conflict, invalid, ServiceError } from "../../core/domain/errors.ts";
import { isOtpCode, OTP_ATTEMPTS_MAX } from "../../core/domain/otp.ts";
import { consumeOtp, secondsLocked, takeOtpAttempt } from "../../db/accounts/otps.ts";
import { recordSecurityEvent } from "../../db/accounts/security-events.ts";
import { lockUser, lockUserByEmail, markVerified } from "../../db/accounts/users.ts";
import { deleteChallengesOf } from "../../db/auth/challenges.ts";
import { recordEvents } from "../../db/events/events.ts";
import type { Tx } from "../../db/postgres/client.ts";
import type { Session, User } from "../../db/schema.ts";
import { deleteSessionsOf } from "../../db/sessions/sessions.ts";
import type { Trace } from "../http/audit-trace.ts";
import type { ApiDeps } from "../http/deps.ts";
import { type Browser, startSession } from "../sessions/start-session.ts";
import type { ResendTarget } from "./resend-code.ts";

type Refusal = { refusal: "invalid" | "active" } | { refusal: "locked"; retryAfterS: number };
type Outcome = { user: User; session: Session } | Refusal;

/** One message for wrong, expired, used and unknown; RATE_LIMITED when a code has no attempts left; CONFLICT for ACTIVE users. */
export async function verifyEmail(
  deps: ApiDeps,
  given: { target: ResendTarget; code: string; browser: Browser; trace: Trace },
): Promise<{ user: User; session: Session }> {
  // A refusal is a value until the transaction has committed, because the consumed attempt must persist.
  const outcome = await deps.sql.begin((tx) => tryCode(tx, deps, given));
  if ("refusal" in outcome) throw toError(outcome);
  return outcome;
}

async function tryCode(
  tx: Tx,
  { config }: ApiDeps,
  { target, code, browser, trace }: Parameters<typeof verifyEmail>[1],
): Promise<Outcome> {
  // The user's row is locked before the code's, as when a code is replaced; and the user cannot become ACTIVE concurrently.
  const user =
    "email" in target ? await lockUserByEmail(tx, target.email) : await lockUser(tx, target.userId);
  if (!user) return { refusal: "invalid" };
  if (user.status === "ACTIVE") return { refusal: "active" };
  const otp = await takeOtpAttempt(tx, user.id);
  if (!otp) {
    const retryAfterS = await secondsLocked(tx, user.id);
    return retryAfterS === undefined ? { refusal: "invalid" } : { refusal: "locked", retryAfterS };
  }
  if (!isOtpCode(config.otpPeppers, otp, code)) {
    const type = otp.attempts >= OTP_ATTEMPTS_MAX ? "otp_locked" : "otp_refused";
    await recordSecurityEvent(tx, { userId: user.id, type, ...trace });
    return { refusal: "invalid" };
  }
  if (!(await consumeOtp(tx, otp.id))) return { refusal: "invalid" };
  const verified = user.status === "REGISTERED" ? await verifyUser(tx, user.id, trace) : user;
  const session = await startSession(tx, { user: verified, method: "otp", browser, trace });
  return { user: verified, session };
}

/** Discards everything set up for this address before its owner verified it. */
async function verifyUser(tx: Tx, userId: string, trace: Trace): Promise<User> {
  const user = await markVerified(tx, userId);
  if (!user) throw new Error(`user ${userId} is no longer REGISTERED`);
  await deleteSessionsOf(tx, userId);
  await deleteChallengesOf(tx, userId);
  await recordEvents(tx, [{ userId, type: "user.verified", subjectId: userId }]);
  await recordSecurityEvent(tx, { userId, type: "email_verified", ...trace });
  return user;
}

function toError(refused: Refusal): ServiceError {
  switch (refused.refusal) {
    case "invalid":
      return invalid("otp", "invalid_or_expired", "The code is wrong or has expired");
    case "locked":
      return new ServiceError("RATE_LIMITED", "Too many wrong codes; ask for a new one", {
        headers: { "retry-after": String(refused.retryAfterS) },
        details: { field: "otp", issue: "too_many_attempts" },
      });
    case "active":
      return conflict("This account is active; sign in with your passkey", {
        field: "email",
        issue: "already_active",
      });
  }
}
