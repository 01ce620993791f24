/** The plain layout of our e-mails: no links to images, styles or scripts. */

export type MailText = { subject: string; text: string; html: string };

/** `content` is HTML. */
export function mailDocument(title: string, content: string): string {
  return `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${escapeHtml(title)}</title></head>
<body style="margin:0;padding:24px;background:#f4f5f7;color:#1b1f24;font:16px/1.5 -apple-system,'Segoe UI',Roboto,sans-serif">
<div style="max-width:480px;margin:0 auto;padding:24px;background:#ffffff;border:1px solid #e1e4e8;border-radius:8px">
${content}
</div>
</body>
</html>
`;
}

/** `url`: one of our URLs in `text`, which becomes a link. */
export function mailParagraph(text: string, url?: string): string {
  const content = url === undefined ? escapeHtml(text) : text.split(url).map(escapeHtml).join(mailLink(url));
  return `<p style="margin:0 0 16px;overflow-wrap:anywhere">${content}</p>`;
}

function mailLink(url: string): string {
  return `<a href="${escapeHtml(url)}">${escapeHtml(url)}</a>`;
}

export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
