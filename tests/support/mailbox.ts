/** A real SMTP server for tests, and the wait for a mail that a job sends some time later. */
import type { StoredMail } from "../../local/mailbox/mail-message.ts";
import { type Mailbox, startMailbox } from "../../local/mailbox/mailbox.ts";

export type TestMailbox = Mailbox & {
  /** The newest mail to this address once there are at least `count` (default 1). Throws after `timeoutMs`. */
  waitForMail: (to: string, options?: { count?: number; timeoutMs?: number }) => Promise<StoredMail>;
};

const TIMEOUT_MS = 90_000;

export async function startTestMailbox(ports?: { smtpPort?: number }): Promise<TestMailbox> {
  const mailbox = await startMailbox(ports);
  const waitForMail = async (to: string, { count = 1, timeoutMs = TIMEOUT_MS } = {}) => {
    const deadline = Date.now() + timeoutMs;
    for (;;) {
      const mails = mailbox.messages(to);
      const [newest] = mails;
      if (newest && mails.length >= count) return newest;
      if (Date.now() > deadline) {
        throw new Error(`${to} has ${mails.length} mail(s) after ${timeoutMs} ms, expected ${count}`);
      }
      await Bun.sleep(10);
    }
  };
  return { ...mailbox, waitForMail };
}
