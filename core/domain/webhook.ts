/** Standard Webhooks 1.0.0: what is sent, how it is signed, and when it is sent again. */
import { createHmac, randomBytes } from "node:crypto";

const SECRET_BYTES = 32;
const SECRET_PREFIX = "whsec_";

/** After a rotation messages carry the old secret's signature too, for this long. */
export const OLD_SECRET_LIFE_H = 24;
export const ENDPOINTS_MAX = 20;

/** The published schedule: waits before each try, in seconds. The first is at once; after the last the delivery has FAILED. */
export const RETRY_AFTER_S = [
  0,
  5,
  5 * 60,
  30 * 60,
  2 * 3_600,
  5 * 3_600,
  10 * 3_600,
  14 * 3_600,
  20 * 3_600,
  24 * 3_600,
] as const;

/** An endpoint that had no success for this long, and at least one failure at its end, is disabled. */
export const FAILING_MAX_H = 72;

/** Where HTTP is served: not the ports of mail, shells and name servers, which a message must never reach. */
export function isWebhookPort(port: number): boolean {
  return port === 443 || port >= 1_024;
}

export function newWebhookSecret(): string {
  return `${SECRET_PREFIX}${randomBytes(SECRET_BYTES).toString("base64")}`;
}

/** Seconds until the next try after `tries` failed ones; undefined when there is none. */
export function retryAfterS(tries: number): number | undefined {
  return RETRY_AFTER_S[tries];
}

export type Message = { id: string; timestampS: number; body: string };

/** The three headers, signed with every secret that counts: `v1,` and the base64 HMAC-SHA256 of `id.timestamp.body`. */
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

/** The body: type, time and data, the subject among them. */
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
