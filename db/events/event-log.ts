/** Reads the event log in an order that is stable for every reader. */

import type { EventType } from "../../core/domain/event-types.ts";
import type { Tx } from "../postgres/client.ts";
import { columnsOf } from "../postgres/columns-of.ts";
import { events } from "../schema.ts";
import { type EventPosition, selectHistoryDigest, selectReached } from "./cursor-history.ts";

export type LoggedEvent = {
  id: bigint;
  publicId: string;
  type: EventType;
  subjectId: string;
  data: Record<string, unknown>;
  createdAt: Date;
};

/** How long events wait for older transactions before checking which database those belong to. */
const LOOKUP_AFTER_S = 1;

export type EventPage = {
  events: LoggedEvent[];
  hasMore: boolean;
  /** Of the last event; undefined when there is none. */
  end: EventPosition | undefined;
};

type Row = LoggedEvent & { writtenBy: string; epoch: string; digest: string | null };

/**
 * At most `limit` of a user's events after a position, oldest first; undefined when this log lacks what was read up to there: its
 * server was restored from an older copy, or is a standby that was promoted without its primary's last transactions.
 *
 * Ids are assigned before commit, so an event is returned only once every older transaction of this database has ended: no earlier event
 * can appear any more, and no reader skips one. Transactions of earlier epochs ended with that server run, whatever their numbers.
 *
 * One statement checks and reads: a pool that fails over between two statements would check on one server and read on the other.
 */
export async function listEvents(
  tx: Tx,
  userId: string,
  page: { after?: EventPosition | undefined; limit: number },
): Promise<EventPage | undefined> {
  const { after, limit } = page;
  const isAfter = after
    ? tx`and (events.epoch, events.written_by, events.id)
        > ((select epoch from reached), (select written_by from reached), (select id from reached))`
    : tx``;
  const rows = await tx<(Row | { id: null })[]>`
    with reached as (${after ? selectReached(tx, userId, after) : tx`select`}),
    page as (
      select ${columnsOf(tx, events, "events")}, row_number() over (order by epoch, written_by, id) as place
      from events
      where owner_key(user_id) = owner_key(${userId})
        and ${isFinal(tx, userId)}
        ${isAfter}
      order by epoch, written_by, id
      limit ${limit + 1}
    )
    select
      page.id, event_name(page.public_id) as public_id, page.type, page.subject_id, page.data, page.created_at, page.written_by::text as written_by,
      (select name from event_epochs where number = page.epoch) as epoch,
      case when page.place = ${limit}::int or page.place = (select count(*) from page)
        then ${selectHistoryDigest(tx, tx`page`)}
      end as digest
    from reached
    left join page on true
    order by page.place`;
  if (rows.length === 0) return undefined;
  const found = rows.filter((row): row is Row => row.id !== null);
  const shown = found.slice(0, limit);
  return { events: shown, hasMore: found.length > limit, end: endOf(shown.at(-1)) };
}

/**
 * SQL: no event can appear before this one any more. The snapshot's oldest transaction may be of another database of the cluster, where it
 * can run for hours. Telling them apart reads every session, so it is done only once an event of this user has waited for LOOKUP_AFTER_S.
 * A running transaction that no session of another database holds is taken for one of this database. In one statement with the read: the
 * sessions are read after its snapshot was taken, so a transaction in the snapshot still has its session, or counts as this database's.
 */
function isFinal(tx: Tx, userId: string) {
  return tx`(epoch, written_by) < (
    (select running_event_epoch()),
    (
      select case
        when exists (
          select from events waiting
          where owner_key(waiting.user_id) = owner_key(${userId})
            and waiting.epoch = (select running_event_epoch())
            and waiting.written_by >= pg_snapshot_xmin(pg_current_snapshot())
            and waiting.created_at < clock_timestamp() - make_interval(secs => ${LOOKUP_AFTER_S}::float8)
        ) then (
          select coalesce(min(running), pg_snapshot_xmax(pg_current_snapshot()))
          from pg_snapshot_xip(pg_current_snapshot()) running
          where not exists (
            select from pg_stat_activity session
            where session.backend_xid = running::xid
              and session.datid <> (select oid from pg_database where datname = current_database())
          )
        )
        else pg_snapshot_xmin(pg_current_snapshot())
      end
    )
  )`;
}

function endOf(last: LoggedEvent | undefined): EventPosition | undefined {
  if (!last) return undefined;
  const { epoch, writtenBy, id, digest } = last as Row;
  return { epoch, writtenBy: BigInt(writtenBy), id, digest: digest ?? undefined };
}

/**
 * Opens the epoch of this server run if nothing has been written in it yet. Called before long transactions: if one opened the epoch
 * itself, other writers would wait for it.
 */
export async function openEventEpoch(sql: Tx): Promise<void> {
  await sql`select write_event_epoch()`;
}

/**
 * The start position for a reader who only wants new events: after the newest event that any reader may have been given. Undefined when there is
 * none.
 */
export async function findNewestPosition(tx: Tx, userId: string): Promise<EventPosition | undefined> {
  const [row] = await tx<Row[]>`
    with newest as (
      select ${columnsOf(tx, events)}
      from events
      where owner_key(user_id) = owner_key(${userId})
        and ${isFinal(tx, userId)}
      order by epoch desc, written_by desc, id desc
      limit 1
    )
    select
      newest.id, newest.written_by::text as written_by,
      (select name from event_epochs where number = newest.epoch) as epoch,
      ${selectHistoryDigest(tx, tx`newest`)} as digest
    from newest`;
  return endOf(row);
}
