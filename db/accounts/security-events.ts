/** The append-only security trail of a user's access. The database rejects changes to a row. */
import type { SecurityEventDetails, SecurityEventType } from "../../core/domain/security-event.ts";
import type { Tx } from "../postgres/client.ts";
import type { SecurityEvent } from "../schema.ts";

export type NewSecurityEvent = {
  userId: string;
  type: SecurityEventType;
  /** Null for what happened on the chain. */
  clientAddress: string | null;
  requestId: string | null;
  details?: SecurityEventDetails;
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
