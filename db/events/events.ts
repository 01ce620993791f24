/** The append-only event log, written in the transaction of the change it describes. */
import type { EventType } from "../../core/domain/event-types.ts";
import type { Tx } from "../postgres/client.ts";

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
