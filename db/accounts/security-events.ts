/** The append-only security trail of a user's access. The database rejects changes to a row. */
import type { SecurityEventDetails, SecurityEventType } from "../../core/domain/security-event.ts";
import type { Tx } from "../postgres/client.ts";
import { columnsOf } from "../postgres/columns-of.ts";
import { type SecurityEvent, securityEvents } from "../schema.ts";

export type NewSecurityEvent = {
  userId: string;
  type: SecurityEventType;
  /** Null for events on the chain. */
  clientAddress: string | null;
  requestId: string | null;
  /** The person or API key that did it; absent for events on the chain or without a session. */
  actorId?: string | null;
  details?: SecurityEventDetails;
};

export async function recordSecurityEvent(tx: Tx, event: NewSecurityEvent): Promise<void> {
  await tx`
    insert into security_events (user_id, type, client_address, request_id, actor_id, details)
    values (
      ${event.userId},
      ${event.type},
      ${event.clientAddress},
      ${event.requestId},
      ${event.actorId ?? null},
      ${JSON.stringify(event.details ?? {})}::text::jsonb
    )`;
}

export type ChainSecurityEvent = Pick<NewSecurityEvent, "userId" | "type" | "details">;

/** For events on the chain, in order, in one statement. */
export async function recordChainSecurityEvents(
  tx: Tx,
  events: readonly ChainSecurityEvent[],
): Promise<void> {
  if (events.length === 0) return;
  const rows = events.map(({ userId, type, details = {} }) => ({ user_id: userId, type, details }));
  await tx`
    insert into security_events (user_id, type, details)
    select user_id, type, details
    from json_to_recordset(${JSON.stringify(rows)}::text::json) as given (user_id text, type text, details jsonb)`;
}

export type ListedSecurityEvent = SecurityEvent & { actorEmail: string | null };

/** A user's trail, newest first, below `beforeId`. */
export async function listSecurityEvents(
  tx: Tx,
  userId: string,
  page: { beforeId: bigint | undefined; limit: number },
): Promise<ListedSecurityEvent[]> {
  return tx<ListedSecurityEvent[]>`
    select ${columnsOf(tx, securityEvents, "security_events")}, actor.email as actor_email
    from security_events
    left join users actor on actor.id = security_events.actor_id
    where security_events.user_id = ${userId} and (${page.beforeId ?? null}::bigint is null or security_events.id < ${page.beforeId ?? null}::bigint)
    order by security_events.id desc
    limit ${page.limit}`;
}
