/** The mail that invites a person to act for a merchant. */
import { INVITATION_LIFE_DAYS } from "./invitation.ts";
import { escapeHtml, type MailText, mailDocument, mailParagraph } from "./mail-html.ts";
import type { MemberRole } from "./member.ts";

const MAY: Readonly<Record<MemberRole, string>> = {
  owner: "do everything, and sign payments once your passkey is an owner of the wallet",
  operator: "create payment links and request refunds",
  accountant: "read everything and create exports",
  viewer: "read links and transactions",
};

export function renderInvitationMail(
  { merchantName, role, email }: { merchantName: string; role: MemberRole; email: string },
  baseUrl: string,
): MailText {
  const site = new URL(baseUrl).host;
  const url = `${baseUrl}/invitations`;
  const lines = {
    what: `${merchantName} invites you to their account on ${site} as ${role}: you would be able to ${MAY[role]}.`,
    how: `Sign in as ${email}, or register with that address, and accept it at`,
    life: `It is valid for ${INVITATION_LIFE_DAYS} days. You sign in with a passkey of your own; nobody shares a password or a key.`,
    ignore: "If you do not know them, ignore this e-mail: nothing happens unless you accept.",
  };
  return {
    subject: `${merchantName} invites you to their account on ${site}`,
    text: [lines.what, "", lines.how, url, "", lines.life, "", lines.ignore, ""].join("\n"),
    html: mailDocument(
      site,
      `${mailParagraph(lines.what)}
${mailParagraph(lines.how)}
<p style="margin:0 0 16px"><a href="${escapeHtml(url)}">${escapeHtml(url)}</a></p>
${mailParagraph(lines.life)}
<p style="margin:0;color:#57606a;font-size:14px">${escapeHtml(lines.ignore)}</p>`,
    ),
  };
}
