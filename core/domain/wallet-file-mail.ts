/** The e-mail that carries a wallet file: what it is for, and that it is not a secret. */
import { escapeHtml, type MailText, mailDocument, mailParagraph } from "./mail-html.ts";
import type { Hex } from "./networks.ts";

export function renderWalletFileMail({ address, baseUrl }: { address: Hex; baseUrl: string }): MailText {
  const site = new URL(baseUrl).host;
  const copyUrl = `${baseUrl}/leave?download`;
  const lines = {
    what: `The attached file describes your wallet at ${site}. Keep this e-mail.`,
    why: `With this file and your passkey you can move your USDC yourself, even when ${site} is not available.`,
    page: `The page that does it is ${baseUrl}/leave.`,
    copy: `Save a copy of it now: ${copyUrl}. It is a single file and works without our servers.`,
    secret: "The file holds no secret: nobody can move anything with it without your passkey.",
    care: "We will never ask you to open it, to send it, or to sign anything with it.",
  };
  return {
    subject: `Your wallet file for ${site}`,
    text: [
      lines.what,
      "",
      `Wallet: ${address}`,
      "",
      lines.why,
      lines.page,
      lines.copy,
      "",
      lines.secret,
      lines.care,
      "",
    ].join("\n"),
    html: mailDocument(
      site,
      `${mailParagraph(lines.what)}
<p style="margin:0 0 16px;font:14px/1.4 ui-monospace,Menlo,Consolas,monospace;word-break:break-all">${escapeHtml(address)}</p>
${mailParagraph(lines.why)}
${mailParagraph(lines.page)}
${mailParagraph(lines.copy, copyUrl)}
${mailParagraph(lines.secret)}
<p style="margin:0;color:#57606a;font-size:14px">${escapeHtml(lines.care)}</p>`,
    ),
  };
}
