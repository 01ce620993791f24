/** Reading the event log in an order that never changes behind a reader's back. */
import type { Tx } from "./client.ts";
import type { EventType } from "./events.ts";

/** A place in a user's log: the epoch (migrations 0038 and 0039), the transaction that wrote an event, then the event. */
export type EventPosition = { epoch: number; writtenBy: bigint; id: bigint };
export type LoggedEvent = {
  id: bigint;
  publicId: string;
  type: EventType;
  subjectId: string;
  data: Record<string, unknown>;
  createdAt: Date;
  writtenBy: string;
  /** The name of its epoch. */
  epoch: string;
};

/**
 * At most `limit` of a user's events after a position, oldest first. Ids are handed out before commit, so an event counts only
 * once every transaction older than its own has ended: nothing can appear before it any more, and no reader skips one.
 * Transactions of earlier epochs ended with the server's run, whatever their numbers are.
 * The order names the column itself: a bare `written_by` would be the text beside it, and "1000" comes before "999".
 */
export async function listEvents(
  tx: Tx,
  userId: string,
  page: { after?: EventPosition | undefined; limit: number },
): Promise<LoggedEvent[]> {
  const after = page.after
    ? tx`and (events.epoch, written_by, id) > (${page.after.epoch}::int, ${page.after.writtenBy.toString()}::text::xid8, ${page.after.id}::bigint)`
    : tx``;
  return tx<LoggedEvent[]>`
    select
      id, public_id, type, subject_id, data, events.created_at, written_by::text as written_by,
      (select name from event_epochs where number = events.epoch) as epoch
    from events
    where user_id = ${userId}
      and (events.epoch < (select running_event_epoch()) or written_by < pg_snapshot_xmin(pg_current_snapshot()))
      ${after}
    order by events.epoch, events.written_by, id
    limit ${page.limit}`;
}

/** The number of an epoch of this log; undefined for a name it has never had. */
export async function findEventEpoch(tx: Tx, name: string): Promise<number | undefined> {
  const [row] = await tx<{ number: number }[]>`
    select number
    from event_epochs
    where name = ${name}`;
  return row?.number;
}

/**
 * Opens the epoch of what is written now when this run of Postgres has written nothing yet. For transactions that take long: others that
 * write would wait for the epoch that one of those opens.
 */
export async function openEventEpoch(sql: Tx): Promise<void> {
  await sql`select write_event_epoch()`;
}
