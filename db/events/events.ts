/** The append-only event log, written in the transaction of the change it describes. */
import type { Tx } from "../postgres/client.ts";

export const EVENT_TYPES = [
  "user.registered",
  "user.verified",
  "user.activated",
  "wallet.created",
  "wallet.deployed",
  "wallet.send_queued",
  "wallet.send_confirmed",
  "wallet.send_failed",
  "wallet.send_reorged",
  "wallet.owner_change_queued",
  "wallet.owner_change_failed",
  "wallet.owner_added",
  "wallet.owner_removed",
  "wallet.upgraded",
  "refund.requested",
  "refund.cancelled",
  "refund.created",
  "refund.confirmed",
  "refund.failed",
  "refund.reorged",
  "payment_link.created",
  "payment_link.pending",
  "payment_link.released",
  "payment_link.paid",
  "payment_link.expired",
  "payment_link.cancelled",
  "payment_link.reorged",
  "payment_link.exception",
  "transaction.detected",
  "transaction.confirmed",
  "transaction.failed",
  "transaction.orphaned",
  "transaction.disputed",
  "transaction.assigned",
  "transaction.unassigned",
  "member.invited",
  "member.invitation_ended",
  "member.joined",
  "member.role_changed",
  "member.removed",
  "export.ready",
  "export.failed",
  "webhook.test",
] as const;
export type EventType = (typeof EVENT_TYPES)[number];

export type NewEvent = {
  userId: string;
  type: EventType;
  /** Id of the user, link, wallet or transaction concerned. */
  subjectId: string;
  data?: Record<string, string | number | boolean | null>;
};

/** Appends events in order, in one statement. */
export async function recordEvents(tx: Tx, events: readonly NewEvent[]): Promise<void> {
  if (events.length === 0) return;
  const rows = events.map((event) => ({
    user_id: event.userId,
    type: event.type,
    subject_id: event.subjectId,
    data: event.data ?? {},
  }));
  await tx`
    insert into events (user_id, type, subject_id, data)
    select user_id, type, subject_id, data
    from json_to_recordset(${JSON.stringify(rows)}::text::json)
      as given (user_id text, type text, subject_id text, data jsonb)`;
}
