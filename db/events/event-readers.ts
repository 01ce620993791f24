/**
 * Which users' events are being read live, and by which process: only commits for these users notify (`notify_event_readers`). It only
 * affects latency: without a registration an event is seen at the next read. Where a reader begins: event-log.ts.
 */
import type { Sql, Tx } from "../postgres/client.ts";

/** The rows of a process that died expire. */
const VALID_S = 60;
const RENEW_MS = 20_000;

export type EventReaders = {
  /** Resolves once all commits that begin later notify of this user's events. The function it returns ends the registration. */
  join(userId: string): Promise<() => void>;
};

/** Of one process. */
export function openEventReaders(sql: Sql, onError: (error: unknown) => void): EventReaders {
  const reader = crypto.randomUUID();
  const reading = new Map<string, number>();
  let timer: ReturnType<typeof setInterval> | undefined;

  function renew(): void {
    if (reading.size > 0) {
      noteReaders(sql, reader, [...reading.keys()]).catch(onError);
      return;
    }
    clearInterval(timer);
    timer = undefined;
  }

  function leave(userId: string): void {
    const left = (reading.get(userId) ?? 1) - 1;
    if (left > 0) {
      reading.set(userId, left);
      return;
    }
    // its row stays valid for a while, so reconnecting soon costs nothing
    reading.delete(userId);
  }

  return {
    async join(userId) {
      reading.set(userId, (reading.get(userId) ?? 0) + 1);
      timer ??= setInterval(renew, RENEW_MS).unref();
      // without its row the stream polls once a second
      await noteReaders(sql, reader, [userId]).catch(onError);
      let hasLeft = false;
      return () => {
        if (!hasLeft) leave(userId);
        hasLeft = true;
      };
    },
  };
}

/** Valid for VALID_S from now. Expired rows of any process are removed, because each commit with events scans the table. */
export async function noteReaders(tx: Tx, reader: string, userIds: readonly string[]): Promise<void> {
  await tx`
    with ended as (
      delete from event_readers
      where (user_id, reader) in (
        select user_id, reader
        from event_readers
        where until < now() and not (reader = ${reader} and user_id = any(${[...userIds]}::text[]))
        for update skip locked
      )
    )
    insert into event_readers (user_id, reader, until)
    select user_id, ${reader}, now() + make_interval(secs => ${VALID_S}::float8)
    from unnest(${[...userIds]}::text[]) as reading (user_id)
    on conflict (user_id, reader) do update set until = excluded.until`;
}
