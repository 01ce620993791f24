/** A message in the format of the service's webhooks: the same body and headers (Standard Webhooks 1.0.0), signed with a separate secret. */
import { createHmac, randomBytes } from "node:crypto";
import type { Event } from "../sdk/wire.ts";
import { UsageError } from "./arguments.ts";

const PREFIX = "whsec_";
const SECRET_BYTES = 32;

export function newSecret(): string {
  return `${PREFIX}${randomBytes(SECRET_BYTES).toString("base64")}`;
}

export function parseSecret(given: string): string {
  if (/^whsec_[A-Za-z0-9+/]{16,}={0,2}$/.test(given)) return given;
  throw new UsageError("--secret must be whsec_ and base64, as the dashboard shows it");
}

export function signMessage(
  { id, type, createdAt, data, subjectId }: Event,
  { secret, now = new Date() }: { secret: string; now?: Date },
): { headers: Record<string, string>; body: string } {
  const body = JSON.stringify({ type, timestamp: createdAt, data: { ...data, subjectId } });
  const timestamp = String(Math.floor(now.getTime() / 1_000));
  const key = Buffer.from(secret.slice(PREFIX.length), "base64");
  const signature = createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64");
  return {
    body,
    headers: {
      "content-type": "application/json",
      "webhook-id": id,
      "webhook-timestamp": timestamp,
      "webhook-signature": `v1,${signature}`,
    },
  };
}
