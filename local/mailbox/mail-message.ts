/** Parses a received mail: headers (RFC 5322), encoded words (RFC 2047), MIME parts (RFC 2045). */

export type MailMessage = {
  from: string;
  to: string[];
  subject: string;
  /** All headers by lower-case name, decoded; the last one wins. */
  headers: Record<string, string>;
  /** The first text/plain part, "" when there is none. */
  text: string;
  html: string;
};

export type StoredMail = MailMessage & {
  id: string;
  /** ISO 8601. */
  receivedAt: string;
};

type Part = { headers: Record<string, string>; body: Uint8Array };

const PARTS_DEEP_MAX = 8;
const ENCODED_WORD = /=\?([^?]+)\?([bq])\?([^?]*)\?=/gi;

/** `envelopeTo` are the SMTP recipients, which may differ from the headers. */
export function parseMailMessage(raw: Uint8Array, envelopeTo: readonly string[]): MailMessage {
  const message = splitPart(raw);
  const leaves = collectLeaves(message, 0);
  const textOf = (type: string) => {
    const leaf = leaves.find(({ headers }) => mediaTypeOf(headers) === type);
    return leaf ? decodeText(leaf) : "";
  };
  return {
    from: message.headers.from ?? "",
    to: [...envelopeTo],
    subject: message.headers.subject ?? "",
    headers: message.headers,
    text: textOf("text/plain"),
    html: textOf("text/html"),
  };
}

function splitPart(raw: Uint8Array): Part {
  const latin = Buffer.from(raw).toString("latin1");
  // A part may begin with an empty line: it has no headers.
  const gap = /^\r?\n|\r?\n\r?\n/.exec(latin);
  const headerText = gap ? latin.slice(0, gap.index) : latin;
  const body = gap ? raw.subarray(gap.index + gap[0].length) : new Uint8Array();
  return { headers: parseHeaders(headerText), body };
}

function parseHeaders(text: string): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const line of text.replace(/\r?\n[ \t]+/g, " ").split(/\r?\n/)) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue;
    const value = Buffer.from(line.slice(colon + 1).trim(), "latin1").toString("utf8");
    headers[line.slice(0, colon).toLowerCase()] = decodeWords(value);
  }
  return headers;
}

/** Whitespace between two encoded words is not part of the text. */
function decodeWords(value: string): string {
  return value
    .replace(/(\?=)\s+(=\?)/g, "$1$2")
    .replace(ENCODED_WORD, (_, charset: string, encoding: string, text: string) => {
      const bytes =
        encoding.toLowerCase() === "b"
          ? Buffer.from(text, "base64")
          : decodeQuotedPrintable(Buffer.from(text.replaceAll("_", " "), "latin1"));
      return decodeCharset(bytes, charset);
    });
}

function collectLeaves(part: Part, depth: number): Part[] {
  const boundary = /boundary="?([^";]+)"?/i.exec(part.headers["content-type"] ?? "")?.[1];
  if (!mediaTypeOf(part.headers).startsWith("multipart/") || !boundary || depth > PARTS_DEEP_MAX)
    return [part];
  const latin = Buffer.from(part.body).toString("latin1");
  const pieces = `\n${latin}`.split(new RegExp(`\\r?\\n--${escapeRegExp(boundary)}`));
  // Text before the first boundary is ignored; "--" after a boundary ends the list.
  return pieces
    .slice(1)
    .filter((piece) => !piece.startsWith("--"))
    .map((piece) => splitPart(Buffer.from(piece.replace(/^[ \t]*\r?\n/, ""), "latin1")))
    .flatMap((child) => collectLeaves(child, depth + 1));
}

function mediaTypeOf(headers: Record<string, string>): string {
  return (headers["content-type"] ?? "text/plain").split(";")[0]?.trim().toLowerCase() ?? "text/plain";
}

function decodeText({ headers, body }: Part): string {
  const encoding = headers["content-transfer-encoding"]?.trim().toLowerCase();
  const charset = /charset="?([^";\s]+)"?/i.exec(headers["content-type"] ?? "")?.[1] ?? "utf-8";
  if (encoding === "base64")
    return decodeCharset(Buffer.from(Buffer.from(body).toString("latin1"), "base64"), charset);
  return decodeCharset(encoding === "quoted-printable" ? decodeQuotedPrintable(body) : body, charset);
}

function decodeQuotedPrintable(bytes: Uint8Array): Uint8Array {
  const text = Buffer.from(bytes).toString("latin1");
  const decoded = text
    .replace(/[ \t]+(\r?\n)/g, "$1")
    .replace(/=\r?\n/g, "")
    .replace(/=([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  return Buffer.from(decoded, "latin1");
}

/** An unknown charset is read as UTF-8. */
function decodeCharset(bytes: Uint8Array, charset: string): string {
  try {
    return new TextDecoder(charset as Bun.Encoding).decode(bytes);
  } catch {
    return new TextDecoder().decode(bytes);
  }
}

function escapeRegExp(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
