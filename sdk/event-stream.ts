/** Server-sent events over fetch, which carries the API key as EventSource cannot. Reconnects from the last id until `signal` is aborted. */
import { ApiError } from "./errors.ts";
import { backoffMs, type ClientOptions, either, ignore, pause, send } from "./request.ts";

export type StreamMessage = { id: string | undefined; event: string; data: string };
export type StreamCall = { path: string; lastEventId?: string | undefined; signal?: AbortSignal | undefined };

/** The service sends something every 15 seconds; a connection that is silent for longer is lost. */
const SILENCE_MS = 45_000;
const PAUSE_MS = 500;

/** Ends when `signal` is aborted; throws ApiError when the service refuses (429 is retried). */
export async function* readStream(
  options: ClientOptions,
  { path, lastEventId, signal }: StreamCall,
): AsyncGenerator<StreamMessage, void, undefined> {
  let position = lastEventId;
  for (let failures = 0; !signal?.aborted; failures += 1) {
    try {
      for await (const message of readConnection(options, { path, lastEventId: position, signal })) {
        failures = 0;
        position = message.id ?? position;
        yield message;
      }
    } catch (error) {
      if (error instanceof ApiError && error.status < 500 && error.status !== 429) throw error;
    }
    await pause(backoffMs(failures, PAUSE_MS), signal).catch(ignore);
  }
}

async function* readConnection(
  options: ClientOptions,
  { path, lastEventId, signal }: StreamCall,
): AsyncGenerator<StreamMessage, void, undefined> {
  const connection = new AbortController();
  let silence: ReturnType<typeof setTimeout> | undefined;
  const expectMore = () => {
    clearTimeout(silence);
    silence = setTimeout(() => connection.abort(), SILENCE_MS);
  };
  try {
    expectMore();
    const { body } = await send(options, {
      path,
      accept: "text/event-stream",
      headers: { "last-event-id": lastEventId },
      signal: either(signal, connection.signal),
    });
    if (!body) return;
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = ""; ; ) {
      const { value, done } = await reader.read();
      if (done) return;
      expectMore();
      const blocks = (text + value).split(/\r?\n\r?\n/);
      text = blocks.pop() ?? "";
      for (const block of blocks) {
        const message = parseMessage(block);
        if (message) yield message;
      }
    }
  } finally {
    clearTimeout(silence);
    connection.abort();
  }
}

/** Undefined for a comment, and for a block that only sets the retry time. */
function parseMessage(block: string): StreamMessage | undefined {
  const lines = block.split(/\r?\n/);
  const valuesOf = (name: string) =>
    lines
      .filter((line) => line.startsWith(`${name}:`))
      .map((line) => line.slice(name.length + 1).replace(/^ /, ""));
  const data = valuesOf("data");
  if (data.length === 0) return undefined;
  return { id: valuesOf("id").at(-1), event: valuesOf("event").at(-1) ?? "message", data: data.join("\n") };
}
