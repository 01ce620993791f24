/** E-mails an invitation, at least once: a second copy is harmless. Only a permanent refusal or the end of the invitation ends the attempts. */
import { renderInvitationMail } from "../../core/domain/invitation-mail.ts";
import { defaultMerchantName } from "../../core/domain/user.ts";
import type { Log } from "../../core/runtime/log.ts";
import type { JobPayload } from "../../db/jobs/queue.ts";
import { findUnsentInvitation, markInvitationSent } from "../../db/members/invitations.ts";
import type { Sql } from "../../db/postgres/client.ts";
import type { Mailer } from "./mailer.ts";

export type InvitationDeps = { sql: Sql; mailer: Mailer; log: Log; config: { baseUrl: string } };

/** Returns when it was accepted or permanently refused; throws to be retried. */
export async function sendInvitation(
  { sql, mailer, log, config }: InvitationDeps,
  { invitationId, requestId }: JobPayload<"send_invitation">,
): Promise<void> {
  const invitation = await findUnsentInvitation(sql, invitationId);
  if (!invitation) return;
  const { email, role, merchantId, merchantEmail } = invitation;
  const merchantName = invitation.merchantName ?? defaultMerchantName(merchantEmail);
  const label = { invitationId, merchantId, requestId };
  const connection = await mailer.connect();
  try {
    const delivery = await connection.deliver({
      ...renderInvitationMail({ merchantName, role, email }, config.baseUrl),
      to: email,
      // the same for every attempt, so that mailboxes can deduplicate copies
      messageId: `<${invitationId}@${new URL(config.baseUrl).hostname}>`,
    });
    if (delivery.outcome === "accepted") log.info(label, "invitation mailed");
    else if (delivery.outcome === "refused" && delivery.isPermanent)
      log.warn(label, `the mail server permanently refused the invitation: ${delivery.reply}`);
    else throw new Error(`the invitation may not have been mailed: ${delivery.reply}`);
    await markInvitationSent(sql, invitationId);
  } finally {
    connection.close();
  }
}
