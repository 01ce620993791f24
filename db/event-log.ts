/** Reading the event log in an order that never changes behind a reader's back. */
import type { Tx } from "./client.ts";
import type { EventType } from "./events.ts";

/** A place in a user's log: the transaction that wrote an event, then the event. */
export type EventPosition = { writtenBy: bigint; id: bigint };
export type LoggedEvent = {
  id: bigint;
  publicId: string;
  type: EventType;
  subjectId: string;
  data: Record<string, unknown>;
  createdAt: Date;
  writtenBy: string;
};

/**
 * At most `limit` of a user's events after a position, oldest first. Ids are handed out before commit, so an event counts only
 * once every transaction older than its own has ended: nothing can appear before it any more, and no reader skips one.
 * The order names the column itself: a bare `written_by` would be the text beside it, and "1000" comes before "999".
 */
export async function listEvents(
  tx: Tx,
  userId: string,
  page: { after?: EventPosition | undefined; limit: number },
): Promise<LoggedEvent[]> {
  const after = page.after
    ? tx`and (written_by, id) > (${page.after.writtenBy.toString()}::text::xid8, ${page.after.id}::bigint)`
    : tx``;
  return tx<LoggedEvent[]>`
    select id, public_id, type, subject_id, data, created_at, written_by::text as written_by
    from events
    where user_id = ${userId}
      and written_by < pg_snapshot_xmin(pg_current_snapshot())
      ${after}
    order by events.written_by, id
    limit ${page.limit}`;
}
