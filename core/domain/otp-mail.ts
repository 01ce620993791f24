/** The mail that carries a one-time code: short and plain, without links or pictures a phisher could imitate. */
import { escapeHtml, type MailText, mailDocument, mailParagraph } from "./mail-html.ts";
import { OTP_LIFE_S } from "./otp.ts";

export function renderOtpMail({ code, baseUrl }: { code: string; baseUrl: string }): MailText {
  const site = new URL(baseUrl).host;
  const minutes = OTP_LIFE_S / 60;
  const lines = {
    why: `You asked to verify this e-mail address for ${site}.`,
    life: `It works once, and for ${minutes} minutes.`,
    care: `Nobody will ever ask you for it by phone, chat or mail. Only type it on ${site}.`,
    ignore: "If this was not you, ignore this e-mail: without the code nothing happens.",
  };
  return {
    subject: `${code} is your code for ${site}`,
    text: [lines.why, "", `Your code: ${code}`, "", lines.life, lines.care, "", lines.ignore, ""].join("\n"),
    html: toHtml(code, lines, site),
  };
}

function toHtml(
  code: string,
  lines: { why: string; life: string; care: string; ignore: string },
  site: string,
): string {
  return mailDocument(
    site,
    `${mailParagraph(lines.why)}
<p style="margin:0 0 16px;font:600 32px/1.2 ui-monospace,Menlo,Consolas,monospace;letter-spacing:6px">${escapeHtml(code)}</p>
${mailParagraph(lines.life)}
${mailParagraph(lines.care)}
<p style="margin:0;color:#57606a;font-size:14px">${escapeHtml(lines.ignore)}</p>`,
  );
}
