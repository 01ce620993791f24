/** Whether this database still has the history before a reader's cursor: after a restored backup or a failover it may not. */
import type { Tx } from "../postgres/client.ts";

/** A read position: the last event received, the epoch that wrote it (a fencing token; db/schema/events.sql), and a digest of what precedes it. */
export type EventPosition = {
  /** The epoch's name; undefined in cursors of version 0.1, which are of the first epoch. */
  epoch: string | undefined;
  writtenBy: bigint;
  id: bigint;
  /** Undefined in cursors of versions without it. */
  digest: string | undefined;
};

const FIRST_EPOCH = 1;
const DIGEST_HEX_LENGTH = 16;

/** The event at a position, if it exists together with everything the reader was shown before it. */
export function selectReached(tx: Tx, userId: string, { epoch, writtenBy, id, digest }: EventPosition) {
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
      and (${digest ?? null}::text is null or ${selectHistoryDigest(tx, tx`reached`)} = ${digest ?? null}::text)`;
}

/**
 * Names the events up to this one that a surviving log may lack although it holds this one, itself included. The list
 * is final once the event is shown. Usually it is one event; a long transaction adds those written while it was open.
 */
export function selectHistoryDigest(tx: Tx, last: ReturnType<Tx>) {
  return tx`(
    select left(encode(sha256(convert_to(string_agg(event_name(earlier.public_id), ',' order by earlier.written_by, earlier.id), 'UTF8')), 'hex'), ${DIGEST_HEX_LENGTH}::int)
    from events earlier
    where owner_key(earlier.user_id) = owner_key(${last}.user_id)
      and earlier.epoch = ${last}.epoch
      and earlier.written_by >= least(${last}.ended_before, ${last}.written_by)
      and (earlier.written_by, earlier.id) <= (${last}.written_by, ${last}.id)
  )`;
}
