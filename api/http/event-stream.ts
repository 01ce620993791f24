/** Server-sent events: how many streams a process holds, how long one lasts, and how it ends. The caller supplies the messages. */
import type { Drain } from "./drain.ts";

/** Response headers; the second prevents a reverse proxy (nginx) from buffering events. */
export const EVENT_STREAM = { "content-type": "text/event-stream; charset=utf-8", "x-accel-buffering": "no" };
/** Sent when nothing has happened for this long, so that proxies keep the connection. */
export const KEEP_ALIVE_MS = 15_000;
export const KEEP_ALIVE = ": still here\n\n";
/** The browser reconnects by itself after this pause. */
export const RETRY_MS = 2_000;
/** Maximum duration of a stream: a client that reconnects is authenticated and counted again. */
const LIFE_MS = 10 * 60_000;

export type StreamSlots = {
  /** Reserves a slot; the returned function releases it. Undefined when none is free. */
  reserve: (key: string) => (() => void) | undefined;
};

/** Concurrent streams per process: `max` in total, `maxEach` per key; other clients have to poll. */
const STREAMS = {
  /** By member, or API key. */
  events: { max: 500, maxEach: 10 },
  /** By address, or network of addresses. */
  link: { max: 500, maxEach: 20 },
  /** Calls in progress, by API key. */
  mcp: { max: 200, maxEach: 10 },
} as const;

export function openStreamSlots(kind: keyof typeof STREAMS): StreamSlots {
  const { max, maxEach } = STREAMS[kind];
  let open = 0;
  const openByKey = new Map<string, number>();
  return {
    reserve(key) {
      const ofKey = openByKey.get(key) ?? 0;
      if (open >= max || ofKey >= maxEach) return undefined;
      open += 1;
      openByKey.set(key, ofKey + 1);
      return () => {
        open -= 1;
        const left = (openByKey.get(key) ?? 1) - 1;
        if (left > 0) openByKey.set(key, left);
        else openByKey.delete(key);
      };
    },
  };
}

type EventStream = {
  drain: Pick<Drain, "closing">;
  /** Aborted when the client disconnects. */
  signal: AbortSignal;
  /** Yields messages in wire format; checks `isOpen` before and after each wait. */
  messages: (isOpen: () => boolean) => AsyncGenerator<string>;
  /** Called once, however the stream ends. */
  onEnd: () => void;
};

/** Ends when its client, its maximum duration or its messages end, or when the process stops listening, whichever is first. */
export function openEventStream({ drain, signal, messages, onEnd }: EventStream): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  const untilMs = performance.now() + LIFE_MS;
  let isOver = false;
  let controllerOf: ReadableStreamDefaultController<Uint8Array> | undefined;
  const end = () => {
    if (isOver) return;
    isOver = true;
    onEnd();
    drain.closing.removeEventListener("abort", close);
  };
  const close = () => {
    end();
    controllerOf?.close();
  };
  signal.addEventListener("abort", end);
  drain.closing.addEventListener("abort", close);
  const source = messages(() => !isOver && performance.now() < untilMs);
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
