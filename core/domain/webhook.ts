/** Standard Webhooks 1.0.0: the message, its signature and the retry schedule. */
import { createHmac, randomBytes } from "node:crypto";

const SECRET_BYTES = 32;
const SECRET_PREFIX = "whsec_";

/** After a rotation, messages also carry the old secret's signature for this long. */
export const OLD_SECRET_LIFE_H = 24;
export const ENDPOINTS_MAX = 20;

/** The published schedule: the delay before each attempt, in seconds. The first is immediate; after the last the delivery is FAILED. */
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

/** An endpoint without a success for this long, and with at least one failure at the end of it, is disabled. */
export const FAILING_MAX_H = 72;

/** Ports a webhook may target: never those of mail, shells and name servers. */
export function isWebhookPort(port: number): boolean {
  return port === 443 || port >= 1_024;
}

export function newWebhookSecret(): string {
  return `${SECRET_PREFIX}${randomBytes(SECRET_BYTES).toString("base64")}`;
}

/** Seconds until the next attempt after `tries` failed ones; undefined when there is none. */
export function retryAfterS(tries: number): number | undefined {
  return RETRY_AFTER_S[tries];
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
