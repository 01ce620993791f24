/**
 * Webhook messages according to Standard Webhooks 1.0.0: body, signature, how long a replaced secret still signs, and which endpoints are allowed.
 * When a delivery is retried: webhook-failures.ts.
 */
import { createHmac, randomBytes } from "node:crypto";

const SECRET_BYTES = 32;
const SECRET_PREFIX = "whsec_";

/** After a rotation, messages also carry the old secret's signature for this long. */
export const OLD_SECRET_LIFE_H = 24;
export const ENDPOINTS_MAX = 20;

/** Ports a webhook may target: never those of mail, shell and DNS servers. */
export function isWebhookPort(port: number): boolean {
  return port === 443 || port >= 1_024;
}

export function newWebhookSecret(): string {
  return `${SECRET_PREFIX}${randomBytes(SECRET_BYTES).toString("base64")}`;
}

export type Message = { id: string; timestampS: number; body: string };

/** The three headers, signed with every valid secret: `v1,` and the base64 HMAC-SHA256 of `id.timestamp.body`. */
export function messageHeaders(message: Message, secrets: readonly string[]): Record<string, string> {
  const signed = `${message.id}.${message.timestampS}.${message.body}`;
  const signatures = secrets.map((secret) => {
    const key = Buffer.from(secret.slice(SECRET_PREFIX.length), "base64");
    return `v1,${createHmac("sha256", key).update(signed).digest("base64")}`;
  });
  return {
    "webhook-id": message.id,
    "webhook-timestamp": String(message.timestampS),
    "webhook-signature": signatures.join(" "),
  };
}

/** The body: type, time and data, which includes the subject. */
export function messageBody(event: {
  type: string;
  subjectId: string;
  data: Record<string, unknown>;
  createdAt: Date;
}): string {
  return JSON.stringify({
    type: event.type,
    timestamp: event.createdAt.toISOString(),
    data: { ...event.data, subjectId: event.subjectId },
  });
}
