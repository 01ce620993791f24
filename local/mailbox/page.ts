/** The mailbox as an HTML page. All content is untrusted and escaped. */
import { escapeHtml } from "../../core/domain/mail-html.ts";
import type { StoredMail } from "./mail-message.ts";

export function renderMailbox(mails: readonly StoredMail[]): string {
  const rows = mails.map(renderMail).join("\n");
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="refresh" content="5">
<title>Local mailbox</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 44rem; margin: 2rem auto; padding: 0 1rem; color: #1b1b1b; }
article { border: 1px solid #ccc; border-radius: 6px; padding: 0.5rem 1rem; margin: 1rem 0; }
h2 { font-size: 1.1rem; margin: 0.3rem 0; }
p { margin: 0.3rem 0; color: #555; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; }
</style>
</head>
<body>
<h1>Local mailbox</h1>
<p>Mails the service sent on this machine, newest first. They left it by SMTP and went no further.</p>
${rows || "<p>No mail yet.</p>"}
</body>
</html>
`;
}

function renderMail(mail: StoredMail): string {
  return `<article>
<h2>${escapeHtml(mail.subject)}</h2>
<p>to ${escapeHtml(mail.to.join(", "))}, from ${escapeHtml(mail.from)}, ${escapeHtml(mail.receivedAt)}</p>
<pre>${escapeHtml(mail.text || mail.html)}</pre>
</article>`;
}
