/**
 * E-mails a one-time code, at most once. The row says "sent" before the message is handed to the server, and is reset only when
 * the server refused it. If a worker crashes in between, the code may not have been sent: the user can request another after a minute,
 * which is better than two e-mails that look like an attack.
 */
import { openSealedOtp } from "../../core/domain/otp.ts";
import { renderOtpMail } from "../../core/domain/otp-mail.ts";
import type { KeyList } from "../../core/domain/seal-secrets.ts";
import type { Log } from "../../core/runtime/log.ts";
import { findSendableOtp, markOtpSent, markOtpUnsent } from "../../db/accounts/otps.ts";
import type { JobPayload } from "../../db/jobs/queue.ts";
import type { Sql } from "../../db/postgres/client.ts";
import type { Delivery, Mailer } from "./mailer.ts";

export type OtpEmailDeps = {
  sql: Sql;
  mailer: Mailer;
  log: Log;
  config: { otpPeppers: KeyList; baseUrl: string };
};

/** Returns when there is nothing (more) to send; throws to be retried. */
export async function sendOtpEmail(
  { sql, mailer, log, config }: OtpEmailDeps,
  payload: JobPayload<"send_otp_email">,
): Promise<void> {
  const otp = await findSendableOtp(sql, payload.otpId);
  if (!otp) return;
  const code = openSealedOtp(config.otpPeppers, otp, otp.sealedCode);
  const mail = {
    ...renderOtpMail({ code, baseUrl: config.baseUrl }),
    to: otp.email,
    messageId: `<${otp.id}@${new URL(config.baseUrl).hostname}>`,
  };
  const connection = await mailer.connect();
  try {
    if (!(await markOtpSent(sql, otp.id))) return;
    const delivery = await connection.deliver(mail);
    const label = { otpId: otp.id, requestId: payload.requestId };
    if (delivery.outcome === "accepted") log.info(label, "code mailed");
    else await handleFailure(delivery, { sql, otpId: otp.id, warn: (message) => log.warn(label, message) });
  } finally {
    connection.close();
  }
}

async function handleFailure(
  delivery: Exclude<Delivery, { outcome: "accepted" }>,
  { sql, otpId, warn }: { sql: Sql; otpId: string; warn: (message: string) => void },
): Promise<void> {
  if (delivery.outcome === "unknown")
    return warn(`the mail server may or may not have accepted the mail: ${delivery.reply}`);
  await markOtpUnsent(sql, otpId);
  if (delivery.isPermanent) return warn(`the mail server permanently refused the mail: ${delivery.reply}`);
  throw new Error(`the mail server refused the mail temporarily: ${delivery.reply}`);
}
