/** Replaces the user's code and queues its mail, unless one was sent too recently. */
import { newOtpId } from "../../core/domain/ids.ts";
import { hmacOtp, newOtpCode, sealOtp } from "../../core/domain/otp.ts";
import { replaceOtp, secondsUntilNextOtp } from "../../db/accounts/otps.ts";
import { recordSecurityEvent } from "../../db/accounts/security-events.ts";
import { enqueue } from "../../db/jobs/queue.ts";
import type { Tx } from "../../db/postgres/client.ts";
import type { Trace } from "../http/audit-trace.ts";
import type { ApiDeps } from "../http/deps.ts";

export type SentCode = { sent: true } | { sent: false; retryAfterS: number };

/** Call inside a transaction that locks the user's row, so that concurrent requests share one cool-down. */
export async function sendCode(
  tx: Tx,
  { config }: Pick<ApiDeps, "config">,
  { userId, trace }: { userId: string; trace: Trace },
): Promise<SentCode> {
  const waitS = await secondsUntilNextOtp(tx, userId);
  if (waitS > 0) return { sent: false, retryAfterS: waitS };
  const code = newOtpCode();
  const otp = { id: newOtpId(), userId };
  await replaceOtp(tx, {
    ...otp,
    codeHmac: hmacOtp(config.otpPeppers, otp, code),
    sealedCode: sealOtp(config.otpPeppers, otp, code),
    requestId: trace.requestId,
  });
  await enqueue(tx, "send_otp_email", { otpId: otp.id, userId, requestId: trace.requestId });
  await recordSecurityEvent(tx, { userId, type: "otp_sent", ...trace });
  return { sent: true };
}
