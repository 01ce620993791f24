/**
 * A user's events as they are written (server-sent events). Each message's id is a cursor of `GET /v1/events`, so a reader that reconnects
 * with `Last-Event-ID` misses nothing; one without it gets only new events. If a stream of the user is open, an event's transaction notifies
 * the user's id, which wakes the stream. While an older transaction is open the event is held back: the log is read again soon, then every second.
 */

import type { EventPosition } from "../../db/events/cursor-history.ts";
import { findNewestPosition, listEvents } from "../../db/events/event-log.ts";
import type { EventReaders } from "../../db/events/event-readers.ts";
import type { ApiDeps } from "../http/deps.ts";
import {
  KEEP_ALIVE,
  KEEP_ALIVE_MS,
  openEventStream,
  openStreamSlots,
  RETRY_MS,
} from "../http/event-stream.ts";
import { writeCursor } from "./encode-cursor.ts";
import { presentEvents } from "./wire.ts";

const slots = openStreamSlots("events");
const PAGE = 50;
/** Older transactions usually end soon. */
const RETRIES_MS = [15, 30, 60, 120, 240, 480];

type Reader = {
  userId: string;
  /** Key for counting open streams: one member must not use up those of the others. */
  slot: string;
  /** Undefined for a reader without a position. */
  after: EventPosition | undefined;
  /** Whether the session or key still exists; checked before anything is delivered. */
  isAllowed: () => Promise<boolean>;
};

type StreamDeps = Pick<ApiDeps, "sql" | "config" | "outcomes" | "drain"> & { eventReaders: EventReaders };

/** Undefined when there are too many streams. */
export function streamEvents(
  { sql, config, outcomes, drain, eventReaders }: StreamDeps,
  { userId, slot, after, isAllowed }: Reader,
  signal: AbortSignal,
): ReadableStream<Uint8Array> | undefined {
  const release = slots.reserve(slot);
  if (!release) return undefined;
  const joined = eventReaders.join(userId);

  async function* messages(isOpen: () => boolean): AsyncGenerator<string> {
    await joined;
    let position = after ?? (await findNewestPosition(sql, userId));
    // without any event there is no position yet, so the first event is found by reading from the beginning
    yield `retry: ${RETRY_MS}\n${position ? `id: ${writeCursor(position)}\n` : ""}event: open\ndata: {}\n\n`;
    while (isOpen()) {
      const read = async () => {
        if (!isOpen()) return { events: [], end: undefined };
        const page = await listEvents(sql, userId, { after: position, limit: PAGE });
        // a restored log does not know the position: the reader restarts at its current end
        if (!page) return { events: [], end: await findNewestPosition(sql, userId), isLost: true };
        return page.events.length > 0 ? page : undefined;
      };
      const page = await outcomes.watch(userId).settle(read, KEEP_ALIVE_MS, { retriesMs: RETRIES_MS });
      if (!isOpen() || !(await isAllowed())) return;
      if (!page) {
        yield KEEP_ALIVE;
        continue;
      }
      position = page.end;
      const id = position ? `id: ${writeCursor(position)}\n` : "";
      if ("isLost" in page) yield `${id}event: open\ndata: {}\n\n`;
      // only the id of the last event is a position that was fully read
      const events = await presentEvents({ sql, config }, userId, page.events);
      for (const [index, event] of events.entries())
        yield `${index === events.length - 1 ? id : ""}data: ${JSON.stringify(event)}\n\n`;
    }
  }

  const onEnd = () => {
    release();
    void joined.then((leave) => leave());
  };
  return openEventStream({ drain, signal, messages, onEnd });
}
