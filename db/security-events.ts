/** The append-only trail of what happened to a user's access. The database refuses to change a row. */
import type { Tx } from "./client.ts";
import type { securityEvents } from "./schema.ts";

export const SECURITY_EVENT_TYPES = [
  "otp_sent",
  "otp_refused",
  "otp_locked",
  "email_verified",
  "sign_in",
  "sign_in_refused",
  "sign_out",
  "passkey_added",
  "passkey_refused",
  "passkey_counter_regression",
  "identity_linked",
  "identity_refused",
  "api_key_created",
  "api_key_revoked",
  "access_refused",
  "name_changed",
] as const;
export type SecurityEventType = (typeof SECURITY_EVENT_TYPES)[number];

export type SecurityEvent = Omit<typeof securityEvents.$inferSelect, "type" | "details"> & {
  type: SecurityEventType;
  details: Record<string, string | number | boolean | null>;
};

export type NewSecurityEvent = {
  userId: string;
  type: SecurityEventType;
  clientAddress: string;
  requestId: string;
  details?: SecurityEvent["details"];
};

export async function recordSecurityEvent(tx: Tx, event: NewSecurityEvent): Promise<void> {
  await tx`
    insert into security_events (user_id, type, client_address, request_id, details)
    values (
      ${event.userId},
      ${event.type},
      ${event.clientAddress},
      ${event.requestId},
      ${JSON.stringify(event.details ?? {})}::text::jsonb
    )`;
}

/** A user's trail, newest first, below `beforeId`. */
export async function listSecurityEvents(
  tx: Tx,
  userId: string,
  page: { beforeId: bigint | undefined; limit: number },
): Promise<SecurityEvent[]> {
  return tx<SecurityEvent[]>`
    select *
    from security_events
    where user_id = ${userId} and (${page.beforeId ?? null}::bigint is null or id < ${page.beforeId ?? null}::bigint)
    order by id desc
    limit ${page.limit}`;
}
