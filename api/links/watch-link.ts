/** A link's status as server-sent events: at once, at every change, and a comment now and then that keeps the connection open. */
import type { LinkStatus } from "../../core/domain/link.ts";
import { findPublicLink } from "../../db/links.ts";
import type { ApiDeps } from "../http/deps.ts";
import { presentPublicLink } from "./wire.ts";

/** Streams a process serves at once; a client beyond that polls. */
export const STREAMS_MAX = 500;
const KEEP_ALIVE_MS = 15_000;
/** A stream ends after this; the browser opens the next by itself. */
const LIFE_MS = 10 * 60_000;
const RETRY_MS = 2_000;
const FINAL: readonly LinkStatus[] = ["PAID", "EXPIRED", "CANCELLED"];

let openStreams = 0;

/** Undefined when there are too many streams. The link must exist. */
export function streamLink(
  { sql, outcomes, config }: Pick<ApiDeps, "sql" | "outcomes" | "config">,
  linkId: string,
  signal: AbortSignal,
): ReadableStream<Uint8Array> | undefined {
  if (openStreams >= STREAMS_MAX) return undefined;
  openStreams += 1;
  const encoder = new TextEncoder();
  let isOver = false;
  const end = () => {
    if (isOver) return;
    isOver = true;
    openStreams -= 1;
  };
  signal.addEventListener("abort", end);

  async function* changes(): AsyncGenerator<string> {
    const untilMs = Date.now() + LIFE_MS;
    let told: string | undefined;
    yield `retry: ${RETRY_MS}\n\n`;
    while (!isOver && Date.now() < untilMs) {
      const read = async () => {
        if (isOver) return { text: "", status: undefined };
        const link = await findPublicLink(sql, linkId);
        const text = JSON.stringify(link ? presentPublicLink(link, config) : null);
        return text === told ? undefined : { text, status: link?.status };
      };
      const change = await outcomes.watch(linkId).settle(read, KEEP_ALIVE_MS);
      if (!change) {
        yield ": still here\n\n";
        continue;
      }
      if (!change.status) return;
      told = change.text;
      yield `event: status\ndata: ${change.text}\n\n`;
      if (FINAL.includes(change.status)) return;
    }
  }

  const source = changes();
  return new ReadableStream({
    async pull(controller) {
      const { value, done } = await source.next().catch(() => ({ value: undefined, done: true }));
      if (value !== undefined && !isOver) return controller.enqueue(encoder.encode(value));
      end();
      if (done) controller.close();
    },
    cancel: end,
  });
}
