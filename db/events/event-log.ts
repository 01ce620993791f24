/** Reading the event log in an order that never changes behind a reader's back. */
import type { Tx } from "../postgres/client.ts";
import type { EventType } from "./events.ts";

/** How far a reader has read: the last event he got, the epoch that wrote it (migrations 0038 and 0039), and the seal of what lies before. */
export type EventPosition = {
  /** The epoch's name; undefined in cursors of version 0.1, which are of the first epoch. */
  epoch: string | undefined;
  writtenBy: bigint;
  id: bigint;
  /** Undefined in cursors of versions that had none. */
  seal: string | undefined;
};

export type LoggedEvent = {
  id: bigint;
  publicId: string;
  type: EventType;
  subjectId: string;
  data: Record<string, unknown>;
  createdAt: Date;
};

export type EventPage = {
  events: LoggedEvent[];
  hasMore: boolean;
  /** Of the last event; undefined when there is none. */
  end: EventPosition | undefined;
};

type Row = LoggedEvent & { writtenBy: string; epoch: string; seal: string | null };

const FIRST_EPOCH = 1;
const SEAL_HEX_LENGTH = 16;

/**
 * At most `limit` of a user's events after a position, oldest first; undefined when this log does not hold what was read up to there:
 * its server was restored from an older copy, or is a standby that was promoted without its primary's last transactions.
 *
 * Ids are handed out before commit, so an event counts only once every transaction older than its own has ended: nothing can appear
 * before it any more, and no reader skips one. Transactions of earlier epochs ended with the server's run, whatever their numbers are.
 *
 * One statement checks and reads, so that a pool that moves to another server between two statements cannot check on one and read on the other.
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
      select events.*, row_number() over (order by epoch, written_by, id) as place
      from events
      where user_id = ${userId}
        and (epoch, written_by) < ((select running_event_epoch()), pg_snapshot_xmin(pg_current_snapshot()))
        ${isAfter}
      order by epoch, written_by, id
      limit ${limit + 1}
    )
    select
      page.id, page.public_id, page.type, page.subject_id, page.data, page.created_at, page.written_by::text as written_by,
      (select name from event_epochs where number = page.epoch) as epoch,
      case when page.place = ${limit}::int or page.place = (select count(*) from page)
        then ${selectSeal(tx, tx`page`)}
      end as seal
    from reached
    left join page on true
    order by page.place`;
  if (rows.length === 0) return undefined;
  const found = rows.filter((row): row is Row => row.id !== null);
  const events = found.slice(0, limit);
  return { events, hasMore: found.length > limit, end: endOf(events.at(-1)) };
}

/** The event at a position, when it is there and all that the reader was shown before it. */
function selectReached(tx: Tx, userId: string, { epoch, writtenBy, id, seal }: EventPosition) {
  const isOfEpoch =
    epoch === undefined
      ? tx`reached.epoch = ${FIRST_EPOCH}`
      : tx`reached.epoch = (select number from event_epochs where name = ${epoch})`;
  return tx`
    select epoch, written_by, id
    from events reached
    where id = ${id}::bigint
      and user_id = ${userId}
      and written_by = ${writtenBy.toString()}::text::xid8
      and ${isOfEpoch}
      and (${seal ?? null}::text is null or ${selectSeal(tx, tx`reached`)} = ${seal ?? null}::text)`;
}

/**
 * Names the events up to one that a surviving log may lack although it has that one (migration 0058), and the event itself. They never
 * change once the event is shown. Usually it is the only one; a transaction that stays open long makes it as many as were written meanwhile.
 */
function selectSeal(tx: Tx, last: ReturnType<Tx>) {
  return tx`(
    select left(encode(sha256(convert_to(string_agg(earlier.public_id, ',' order by earlier.written_by, earlier.id), 'UTF8')), 'hex'), ${SEAL_HEX_LENGTH}::int)
    from events earlier
    where earlier.user_id = ${last}.user_id
      and earlier.epoch = ${last}.epoch
      and earlier.written_by >= least(${last}.ended_before, ${last}.written_by)
      and (earlier.written_by, earlier.id) <= (${last}.written_by, ${last}.id)
  )`;
}

function endOf(last: LoggedEvent | undefined): EventPosition | undefined {
  if (!last) return undefined;
  const { epoch, writtenBy, id, seal } = last as Row;
  return { epoch, writtenBy: BigInt(writtenBy), id, seal: seal ?? undefined };
}

/**
 * Opens the epoch of what is written now when this run of Postgres has written nothing yet. For transactions that take long: others that
 * write would wait for the epoch that one of those opens.
 */
export async function openEventEpoch(sql: Tx): Promise<void> {
  await sql`select write_event_epoch()`;
}
