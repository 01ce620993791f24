/** The mail relay: reached, and signed in to, without a mail being sent. */
import { openMailer } from "../../worker/mail/mailer.ts";
import { advice, type Finding, fault, good } from "./finding.ts";
import type { Configuration } from "./read-configuration.ts";

export async function checkMail({ worker }: Configuration): Promise<Finding[]> {
  if (!worker) return [];
  const mailer = openMailer(worker);
  const host = hostOf(worker.smtpUrl);
  const sender =
    worker.nodeEnv === "production" && /@localhost>?$/.test(worker.mailFrom)
      ? [
          advice(
            "mail",
            `MAIL_FROM is "${worker.mailFrom}": receivers refuse it; use an address of your domain`,
          ),
        ]
      : [];
  try {
    const connection = await mailer.connect();
    connection.close();
    return [good("mail", `${host} accepts mail from this machine`), ...sender];
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    return [
      fault(
        "mail",
        `${host} cannot be used: ${text}; correct SMTP_URL, which is needed to send e-mail codes`,
      ),
      ...sender,
    ];
  } finally {
    mailer.close();
  }
}

function hostOf(smtpUrl: string): string {
  try {
    return new URL(smtpUrl).host;
  } catch {
    return "the mail relay";
  }
}
