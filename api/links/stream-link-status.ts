/** A link's status as server-sent events: immediately, at every change, and comments that keep the connection open. */
import { isOpenStatus } from "../../core/domain/link.ts";
import { findPublicLink } from "../../db/links/links.ts";
import { addressGroup } from "../http/client-address.ts";
import type { ApiDeps } from "../http/deps.ts";
import { presentPublicLink } from "./wire.ts";

/** Concurrent streams of a process, in all and per address; further clients have to poll. */
const STREAMS_MAX = 500;
const STREAMS_PER_ADDRESS = 20;
const KEEP_ALIVE_MS = 15_000;
/** Maximum duration of a stream; the browser reconnects by itself. */
const LIFE_MS = 10 * 60_000;
const RETRY_MS = 2_000;

let openStreams = 0;
const openByAddress = new Map<string, number>();

/** Undefined when there are too many streams. The link must exist. */
export function streamLink(
  { sql, outcomes, config }: Pick<ApiDeps, "sql" | "outcomes" | "config">,
  { linkId, clientAddress }: { linkId: string; clientAddress: string },
  signal: AbortSignal,
): ReadableStream<Uint8Array> | undefined {
  const giveBack = takePlace(addressGroup(clientAddress));
  if (!giveBack) return undefined;
  const encoder = new TextEncoder();
  let isOver = false;
  const end = () => {
    if (isOver) return;
    isOver = true;
    giveBack();
  };
  signal.addEventListener("abort", end);

  async function* changes(): AsyncGenerator<string> {
    const untilMs = Date.now() + LIFE_MS;
    let sent: string | undefined;
    yield `retry: ${RETRY_MS}\n\n`;
    while (!isOver && Date.now() < untilMs) {
      const read = async () => {
        if (isOver) return { state: "", text: "", status: undefined };
        const link = await findPublicLink(sql, linkId);
        const data = link ? presentPublicLink(link, config) : null;
        // the time alone is no change
        const state = JSON.stringify({ ...data, now: undefined });
        return state === sent ? undefined : { state, text: JSON.stringify(data), status: link?.status };
      };
      const change = await outcomes.watch(linkId).settle(read, KEEP_ALIVE_MS);
      if (!change) {
        yield ": still here\n\n";
        continue;
      }
      if (!change.status) return;
      sent = change.state;
      yield `event: status\ndata: ${change.text}\n\n`;
      if (!isOpenStatus(change.status)) return;
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

/** Reserves a stream slot; the returned function releases it once. Undefined when none is free. */
function takePlace(address: string): (() => void) | undefined {
  const ofAddress = openByAddress.get(address) ?? 0;
  if (openStreams >= STREAMS_MAX || ofAddress >= STREAMS_PER_ADDRESS) return undefined;
  openStreams += 1;
  openByAddress.set(address, ofAddress + 1);
  return () => {
    openStreams -= 1;
    const left = (openByAddress.get(address) ?? 1) - 1;
    if (left > 0) openByAddress.set(address, left);
    else openByAddress.delete(address);
  };
}
