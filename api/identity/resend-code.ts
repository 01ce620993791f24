/** A fresh code on request. Who asks cannot tell from the answer or its time whether the address is known. */
import { createHash } from "node:crypto";
import { ServiceError } from "../../core/domain/errors.ts";
import { OTP_CODES_PER_HOUR, OTP_COOL_DOWN_S } from "../../core/domain/otp.ts";
import { countRequest } from "../../db/rate-limits.ts";
import { lockUser, lockUserByEmail } from "../../db/users.ts";
import type { ApiDeps } from "../http/deps.ts";
import type { Trace } from "../http/trace.ts";
import { type SentCode, sendCode } from "./send-code.ts";

/** Every answer takes at least this long, which is longer than the work of any. */
const ANSWER_AFTER_MS = 120;

export type ResendTarget = { email: string } | { userId: string };

/** Queues a mail for REGISTERED and WALLET_SETUP_PENDING users; pretends to for anybody else. Throws RATE_LIMITED in the cool-down. */
export async function resendCode(
  deps: ApiDeps,
  { target, trace }: { target: ResendTarget; trace: Trace },
): Promise<void> {
  const [outcome] = await Promise.all([sendOrPretend(deps, target, trace), Bun.sleep(ANSWER_AFTER_MS)]);
  if (outcome.sent) return;
  throw new ServiceError(
    "RATE_LIMITED",
    `A code was sent a moment ago; try again in ${outcome.retryAfterS} s`,
    {
      headers: { "retry-after": String(outcome.retryAfterS) },
      details: { field: "email", issue: "cool_down", retryAfterSeconds: outcome.retryAfterS },
    },
  );
}

function sendOrPretend(deps: ApiDeps, target: ResendTarget, trace: Trace): Promise<SentCode> {
  return deps.sql.begin(async (tx) => {
    const user =
      "email" in target ? await lockUserByEmail(tx, target.email) : await lockUser(tx, target.userId);
    if (user && user.status !== "ACTIVE") return sendCode(tx, deps, { userId: user.id, trace });
    return pretend(deps, target);
  });
}

/** The same cool-down and hourly bound, counted for an address that gets no mail. */
async function pretend(deps: ApiDeps, target: ResendTarget): Promise<SentCode> {
  const asked = "email" in target ? target.email : target.userId;
  const key = `resend:${createHash("sha256").update(asked).digest("base64url")}`;
  const hour = await countRequest(deps.sql, `${key}:hour`, { limit: OTP_CODES_PER_HOUR, windowS: 3_600 });
  if (hour.count > OTP_CODES_PER_HOUR) return { sent: false, retryAfterS: secondsUntil(hour.endsAt) };
  const minute = await countRequest(deps.sql, key, { limit: 1, windowS: OTP_COOL_DOWN_S });
  return minute.count > 1 ? { sent: false, retryAfterS: secondsUntil(minute.endsAt) } : { sent: true };
}

function secondsUntil(time: Date): number {
  return Math.max(1, Math.ceil((time.getTime() - Date.now()) / 1_000));
}
