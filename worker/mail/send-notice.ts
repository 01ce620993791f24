/** E-mails a notice, at least once: a second copy is harmless, but a missing one could hide a theft. Only a permanent refusal ends the attempts. */
import { renderNotice } from "../../core/domain/notice-mail.ts";
import type { Log } from "../../core/runtime/log.ts";
import type { JobPayload } from "../../db/jobs/queue.ts";
import { findUnsentNotice, markNoticeSent } from "../../db/notices/notices.ts";
import type { Sql } from "../../db/postgres/client.ts";
import type { Mailer } from "./mailer.ts";

export type NoticeDeps = { sql: Sql; mailer: Mailer; log: Log; config: { baseUrl: string } };

/** Returns when it was accepted or permanently refused; throws to be retried. */
export async function sendNotice(
  { sql, mailer, log, config }: NoticeDeps,
  { noticeId }: JobPayload<"send_notice">,
): Promise<void> {
  const notice = await findUnsentNotice(sql, noticeId);
  if (!notice) return;
  const label = { noticeId, userId: notice.userId, kind: notice.kind };
  const connection = await mailer.connect();
  try {
    const delivery = await connection.deliver({
      ...renderNotice(notice, config.baseUrl),
      to: notice.email,
      // the same for every attempt, so that mailboxes can deduplicate copies
      messageId: `<notice-${noticeId}@${new URL(config.baseUrl).hostname}>`,
    });
    if (delivery.outcome === "accepted") log.info(label, "notice mailed");
    else if (delivery.outcome === "refused" && delivery.isPermanent)
      log.warn(label, `the mail server permanently refused the notice: ${delivery.reply}`);
    else throw new Error(`the notice may not have been mailed: ${delivery.reply}`);
    await markNoticeSent(sql, notice.id);
  } finally {
    connection.close();
  }
}
