/** The mail that carries a one-time code: short and plain, without links or pictures a phisher could imitate. */
import { OTP_LIFE_S } from "./otp.ts";

export type OtpMail = { subject: string; text: string; html: string };

export function renderOtpMail({ code, baseUrl }: { code: string; baseUrl: string }): OtpMail {
  const site = new URL(baseUrl).host;
  const minutes = OTP_LIFE_S / 60;
  const lines = {
    why: `You asked to verify this e-mail address for ${site}.`,
    life: `It works once, and for ${minutes} minutes.`,
    care: `Nobody will ever ask you for it by phone, chat or mail. Only type it on ${site}.`,
    ignore: "If this was not you, ignore this mail: without the code nothing happens.",
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
  const text = (line: string) => `<p style="margin:0 0 16px">${escapeHtml(line)}</p>`;
  return `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${escapeHtml(site)}</title></head>
<body style="margin:0;padding:24px;background:#f4f5f7;color:#1b1f24;font:16px/1.5 -apple-system,'Segoe UI',Roboto,sans-serif">
<div style="max-width:480px;margin:0 auto;padding:24px;background:#ffffff;border:1px solid #e1e4e8;border-radius:8px">
${text(lines.why)}
<p style="margin:0 0 16px;font:600 32px/1.2 ui-monospace,Menlo,Consolas,monospace;letter-spacing:6px">${escapeHtml(code)}</p>
${text(lines.life)}
${text(lines.care)}
<p style="margin:0;color:#57606a;font-size:14px">${escapeHtml(lines.ignore)}</p>
</div>
</body>
</html>
`;
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
