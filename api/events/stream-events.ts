/**
 * A user's events as they are written (server-sent events). Each message's id is a cursor of `GET /v1/events`, so a reader that reconnects
 * with `Last-Event-ID` misses nothing; one without it gets what is new. A notification of the user's id wakes the stream; should one be
 * lost, or an older transaction still be open, the log is read again within a second.
 */
import { type EventPosition, findNewestPosition, listEvents } from "../../db/events/event-log.ts";
import type { ApiDeps } from "../http/deps.ts";
import { writeCursor } from "./cursor.ts";
import { presentEvent } from "./wire.ts";

/** Concurrent streams of a process, in all and per user; further clients have to poll. */
const STREAMS_MAX = 500;
const STREAMS_PER_USER = 10;
const KEEP_ALIVE_MS = 15_000;
/** Maximum duration of a stream: the browser reconnects by itself, and is authenticated again. */
const LIFE_MS = 10 * 60_000;
const RETRY_MS = 2_000;
const PAGE = 50;

let openStreams = 0;
const openByUser = new Map<string, number>();

type Reader = {
  userId: string;
  /** Undefined for a reader without a position. */
  after: EventPosition | undefined;
  /** Whether session or key still exist; asked before anything is delivered. */
  isAllowed: () => Promise<boolean>;
};

/** Undefined when there are too many streams. */
export function streamEvents(
  { sql, outcomes, drain }: Pick<ApiDeps, "sql" | "outcomes" | "drain">,
  { userId, after, isAllowed }: Reader,
  signal: AbortSignal,
): ReadableStream<Uint8Array> | undefined {
  const giveBack = takePlace(userId);
  if (!giveBack) return undefined;
  const encoder = new TextEncoder();
  let isOver = false;
  const end = () => {
    if (isOver) return;
    isOver = true;
    giveBack();
    drain.closing.removeEventListener("abort", close);
  };
  let controllerOf: ReadableStreamDefaultController<Uint8Array> | undefined;
  const close = () => {
    end();
    controllerOf?.close();
  };
  signal.addEventListener("abort", end);
  drain.closing.addEventListener("abort", close);

  async function* changes(): AsyncGenerator<string> {
    const untilMs = Date.now() + LIFE_MS;
    let position = after ?? (await findNewestPosition(sql, userId));
    // without any event there is no position, so the first one is found by reading from the beginning
    yield `retry: ${RETRY_MS}\n${position ? `id: ${writeCursor(position)}\n` : ""}event: open\ndata: {}\n\n`;
    while (!isOver && Date.now() < untilMs) {
      const read = async () => {
        if (isOver) return { events: [], end: undefined };
        const page = await listEvents(sql, userId, { after: position, limit: PAGE });
        // a restored log does not know the position: the reader starts again from what is there now
        if (!page) return { events: [], end: await findNewestPosition(sql, userId), isLost: true };
        return page.events.length > 0 ? page : undefined;
      };
      const page = await outcomes.watch(userId).settle(read, KEEP_ALIVE_MS);
      if (isOver || !(await isAllowed())) return;
      if (!page) {
        yield ": still here\n\n";
        continue;
      }
      position = page.end;
      const id = position ? `id: ${writeCursor(position)}\n` : "";
      if ("isLost" in page) yield `${id}event: open\ndata: {}\n\n`;
      // only the last one's id is a position that was read up to
      for (const [index, event] of page.events.entries())
        yield `${index === page.events.length - 1 ? id : ""}data: ${JSON.stringify(presentEvent(event))}\n\n`;
    }
  }

  const source = changes();
  return new ReadableStream({
    start(controller) {
      controllerOf = controller;
    },
    async pull(controller) {
      const { value, done } = await source.next().catch(() => ({ value: undefined, done: true }));
      if (drain.closing.aborted) return;
      if (value !== undefined && !isOver) return controller.enqueue(encoder.encode(value));
      end();
      if (done) controller.close();
    },
    cancel: end,
  });
}

/** Reserves a stream slot; the returned function releases it once. Undefined when none is free. */
function takePlace(userId: string): (() => void) | undefined {
  const ofUser = openByUser.get(userId) ?? 0;
  if (openStreams >= STREAMS_MAX || ofUser >= STREAMS_PER_USER) return undefined;
  openStreams += 1;
  openByUser.set(userId, ofUser + 1);
  return () => {
    openStreams -= 1;
    const left = (openByUser.get(userId) ?? 1) - 1;
    if (left > 0) openByUser.set(userId, left);
    else openByUser.delete(userId);
  };
}
