/** Verifies a message by Standard Webhooks 1.0.0 with the platform's own cryptography: browsers, workers and servers. */
import { WebhookError } from "./errors.ts";
import type { WebhookMessage } from "./wire.ts";

const TOLERANCE_S = 5 * 60;

/** The message, once its signature and its time are right. `body` is the text exactly as it was received. Throws WebhookError. */
export async function verifyWebhook(
  body: string,
  // those of Node's requests too
  headers: Headers | Readonly<Record<string, string | readonly string[] | undefined>>,
  { secret, now = new Date() }: { secret: string; now?: Date },
): Promise<{ id: string; message: WebhookMessage }> {
  const read = (name: string) =>
    ((headers instanceof Headers ? headers.get(name) : headers[name]) ?? "") as string;
  const id = read("webhook-id");
  const timestamp = read("webhook-timestamp");
  const signatures = read("webhook-signature").split(" ");
  if (!id || !/^\d+$/.test(timestamp)) throw new WebhookError("The message has no webhook-id or timestamp");
  if (Math.abs(now.getTime() / 1_000 - Number(timestamp)) > TOLERANCE_S)
    throw new WebhookError("The message's timestamp is too far from now");
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const bytesOfKey = decode(secret.replace(/^whsec_/, ""));
  const key = await crypto.subtle.importKey("raw", bytesOfKey, algorithm, false, ["verify"]);
  const signed = new TextEncoder().encode(`${id}.${timestamp}.${body}`);
  for (const signature of signatures) {
    const bytes = signature.startsWith("v1,") ? tryDecode(signature.slice(3)) : undefined;
    // compares in constant time
    if (bytes && (await crypto.subtle.verify("HMAC", key, bytes, signed)))
      return { id, message: JSON.parse(body) as WebhookMessage };
  }
  throw new WebhookError("None of the message's signatures is valid");
}

function decode(base64: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}

function tryDecode(base64: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return decode(base64);
  } catch {
    return undefined;
  }
}
