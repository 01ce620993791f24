/** Sends another code on request. Neither the answer nor its timing reveals whether the address is known. */
import { createHash } from "node:crypto";
import { ServiceError } from "../../core/domain/errors.ts";
import { OTP_CODES_PER_HOUR, OTP_COOL_DOWN_S } from "../../core/domain/otp.ts";
import { lockUser, lockUserByEmail } from "../../db/accounts/users.ts";
import { countRequest } from "../../db/http/rate-limit-counters.ts";
import type { Sql, Tx } from "../../db/postgres/client.ts";
import type { Trace } from "../http/audit-trace.ts";
import type { ApiDeps } from "../http/deps.ts";
import { type SentCode, sendCode } from "./send-code.ts";

/** Minimum response time, longer than the work of any case. */
const ANSWER_AFTER_MS = 120;
const HOUR_S = 3_600;

export type ResendTarget = { email: string } | { userId: string };

/** Queues an e-mail for REGISTERED and WALLET_SETUP_PENDING users; for others it only appears to. Throws RATE_LIMITED during the cool-down. */
export async function resendCode(
  deps: ApiDeps,
  { target, trace }: { target: ResendTarget; trace: Trace },
): Promise<void> {
  const [outcome] = await Promise.all([sendOrPretend(deps, target, trace), Bun.sleep(ANSWER_AFTER_MS)]);
  if (outcome.sent) return;
  throw new ServiceError("RATE_LIMITED", `A code was sent recently; retry in ${outcome.retryAfterS} s`, {
    headers: { "retry-after": String(outcome.retryAfterS) },
    details: { field: "email", issue: "cool_down", retryAfterSeconds: outcome.retryAfterS },
  });
}

async function sendOrPretend(deps: ApiDeps, target: ResendTarget, trace: Trace): Promise<SentCode> {
  const answered = await deps.sql.begin(async (tx) => {
    const user =
      "email" in target ? await lockUserByEmail(tx, target.email) : await lockUser(tx, target.userId);
    if (!user || user.status === "ACTIVE") return undefined;
    return sendCode(tx, deps, { userId: user.id, trace });
  });
  return answered ?? pretend(deps.sql, target);
}

/**
 * The limits of `secondsUntilNextOtp` for an address that gets no mail: one per cool-down, and five slots per hour.
 * As there, refused requests do not count, and the longer wait is reported.
 */
async function pretend(sql: Sql, target: ResendTarget): Promise<SentCode> {
  const asked = "email" in target ? target.email : target.userId;
  const key = `resend:${createHash("sha256").update(asked).digest("base64url")}`;
  const refusal = new Error("too early for another code");
  let retryAfterS = 0;
  try {
    await sql.begin(async (tx) => {
      const coolDownS = await takeSlot(tx, key, OTP_COOL_DOWN_S);
      retryAfterS = Math.max(coolDownS, await takeFirstSlot(tx, key));
      if (retryAfterS > 0) throw refusal;
    });
  } catch (error) {
    if (error !== refusal) throw error;
  }
  return retryAfterS > 0 ? { sent: false, retryAfterS } : { sent: true };
}

/** Seconds until one of the hour's slots is free; 0 when one was taken now. */
async function takeFirstSlot(tx: Tx, key: string): Promise<number> {
  const waits: number[] = [];
  for (let slot = 0; slot < OTP_CODES_PER_HOUR; slot++) {
    const waitS = await takeSlot(tx, `${key}:${slot}`, HOUR_S);
    if (waitS === 0) return 0;
    waits.push(waitS);
  }
  return Math.min(...waits);
}

/** Seconds until the slot is free; 0 when it was taken now. */
async function takeSlot(tx: Tx, key: string, windowS: number): Promise<number> {
  const { count, endsAt } = await countRequest(tx, key, { limit: 1, windowS });
  return count > 1 ? Math.max(1, Math.ceil((endsAt.getTime() - Date.now()) / 1_000)) : 0;
}
