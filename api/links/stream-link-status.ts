/**
 * A link's status as server-sent events: immediately, at every change, and comments that keep the connection open. `seen` says that the
 * block being built holds a transfer that would pay it.
 */
import { isOpenStatus } from "../../core/domain/link.ts";
import { findPublicLink, type PublicLink } from "../../db/links/links.ts";
import { notify } from "../../db/postgres/notifications.ts";
import { addressGroup } from "../http/client-address.ts";
import type { ApiDeps } from "../http/deps.ts";
import { watchPending } from "./pending-transfers.ts";
import { presentPublicLink } from "./wire.ts";

/** Concurrent streams of a process, in all and per address; further clients have to poll. */
const STREAMS_MAX = 500;
const STREAMS_PER_ADDRESS = 20;
const KEEP_ALIVE_MS = 15_000;
/** Maximum duration of a stream; the browser reconnects by itself. */
const LIFE_MS = 10 * 60_000;
const RETRY_MS = 2_000;
/** A pending transfer that is not seen again by then has not become one of a block. */
const SEEN_FOR_MS = 10_000;

let openStreams = 0;
const openByAddress = new Map<string, number>();

/** Undefined when there are too many streams. */
export function streamLink(
  { sql, outcomes, config, chains, drain }: Pick<ApiDeps, "sql" | "outcomes" | "config" | "chains" | "drain">,
  { link: { id: linkId, ...link }, clientAddress }: { link: PublicLink; clientAddress: string },
  signal: AbortSignal,
): ReadableStream<Uint8Array> | undefined {
  const giveBack = takePlace(addressGroup(clientAddress));
  if (!giveBack) return undefined;
  const encoder = new TextEncoder();
  let isOver = false;
  let seenMs = Number.NEGATIVE_INFINITY;
  let seenBlock = 0;
  const onSeen = (block: number) => {
    seenBlock = block;
    const isNew = performance.now() - seenMs >= SEEN_FOR_MS;
    seenMs = performance.now();
    // wakes the reader below; should the notification be lost, it reads every second
    if (isNew) void notify(sql, [linkId]).catch(() => undefined);
  };
  const chain = isOpenStatus(link.status) ? chains.get(link.network) : undefined;
  const ignorePending = chain && watchPending({ chain, sql }, link, onSeen);
  const end = () => {
    if (isOver) return;
    isOver = true;
    ignorePending?.();
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
    let sent: string | undefined;
    yield `retry: ${RETRY_MS}\n\n`;
    while (!isOver && Date.now() < untilMs) {
      const read = async () => {
        if (isOver) return { state: "", text: "", status: undefined };
        const link = await findPublicLink(sql, linkId);
        const isRecent = performance.now() - seenMs < SEEN_FOR_MS;
        // what the ledger has read is pending no longer; some nodes answer the newest block for the one being built
        const isSeen = link?.status === "ACTIVE" && isRecent && seenBlock > link.ledgerBlock;
        const data = link ? { ...presentPublicLink(link, config), ...(isSeen ? { seen: true } : {}) } : null;
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
