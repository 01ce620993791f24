/** A mail as the local mailbox keeps it. */
import PostalMime, { decodeWords } from "postal-mime";

export type MailMessage = {
  from: string;
  to: string[];
  subject: string;
  /** All headers by lower-case name, decoded; the last one wins. */
  headers: Record<string, string>;
  text: string;
  html: string;
  /** Their content as text. */
  attachments: { filename: string; mimeType: string; text: string }[];
};

export type StoredMail = MailMessage & {
  id: string;
  /** ISO 8601. */
  receivedAt: string;
};

/** `envelopeTo` are the SMTP recipients: who really gets it. Throws on a mail nested deeper than the parser's limits. */
export async function parseMailMessage(raw: Uint8Array, envelopeTo: readonly string[]): Promise<MailMessage> {
  const mail = await PostalMime.parse(raw);
  const headers = Object.fromEntries(mail.headers.map(({ key, value }) => [key, decodeWords(value)]));
  return {
    from: headers.from ?? "",
    to: [...envelopeTo],
    subject: mail.subject ?? "",
    headers,
    text: withoutLastBreak(mail.text ?? ""),
    html: withoutLastBreak(mail.html ?? ""),
    attachments: mail.attachments.map(({ filename, mimeType, content }) => ({
      filename: filename ?? "",
      mimeType,
      text: typeof content === "string" ? content : new TextDecoder().decode(content),
    })),
  };
}

/** The parser ends every part with a line break of its own. */
function withoutLastBreak(text: string): string {
  return text.replace(/\n$/, "");
}
