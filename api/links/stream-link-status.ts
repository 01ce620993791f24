/**
 * A link's status as server-sent events: immediately, at every change, and comments that keep the connection open. `seen` means that the
 * block being built contains a transfer that would pay it.
 */
import { isOpenStatus } from "../../core/domain/link.ts";
import { findPublicLink, type PublicLink } from "../../db/links/links.ts";
import { notify } from "../../db/postgres/notifications.ts";
import { addressGroup } from "../http/client-address.ts";
import type { ApiDeps } from "../http/deps.ts";
import {
  KEEP_ALIVE,
  KEEP_ALIVE_MS,
  openEventStream,
  openStreamSlots,
  RETRY_MS,
} from "../http/event-stream.ts";
import { watchPending } from "./pending-transfers.ts";
import { presentPublicLink } from "./wire.ts";

const slots = openStreamSlots("link");
/** A pending transfer that is not seen again within this time did not get into a block. */
const SEEN_FOR_MS = 10_000;

/** Undefined when there are too many streams. */
export function streamLink(
  { sql, outcomes, config, chains, drain }: Pick<ApiDeps, "sql" | "outcomes" | "config" | "chains" | "drain">,
  { link: { id: linkId, ...link }, clientAddress }: { link: PublicLink; clientAddress: string },
  signal: AbortSignal,
): ReadableStream<Uint8Array> | undefined {
  const release = slots.reserve(addressGroup(clientAddress));
  if (!release) return undefined;
  let seenMs = Number.NEGATIVE_INFINITY;
  let seenBlock = 0;
  const onSeen = (block: number) => {
    seenBlock = block;
    const isNew = performance.now() - seenMs >= SEEN_FOR_MS;
    seenMs = performance.now();
    // wakes the loop below; if the notification is lost, it polls every second
    if (isNew) void notify(sql, [linkId]).catch(() => undefined);
  };
  const chain = isOpenStatus(link.status) ? chains.get(link.network) : undefined;
  const ignorePending = chain && watchPending({ chain, sql }, link, onSeen);

  async function* messages(isOpen: () => boolean): AsyncGenerator<string> {
    let sent: string | undefined;
    yield `retry: ${RETRY_MS}\n\n`;
    while (isOpen()) {
      const read = async () => {
        if (!isOpen()) return { state: "", text: "", status: undefined };
        const link = await findPublicLink(sql, linkId);
        const isRecent = performance.now() - seenMs < SEEN_FOR_MS;
        // what the ledger has read is no longer pending; some nodes return the newest block as the pending one
        const isSeen = link?.status === "ACTIVE" && isRecent && seenBlock > link.ledgerBlock;
        const data = link ? { ...presentPublicLink(link, config), ...(isSeen ? { seen: true } : {}) } : null;
        // a new timestamp alone is not a change
        const state = JSON.stringify({ ...data, now: undefined });
        return state === sent ? undefined : { state, text: JSON.stringify(data), status: link?.status };
      };
      const change = await outcomes.watch(linkId).settle(read, KEEP_ALIVE_MS);
      if (!change) {
        yield KEEP_ALIVE;
        continue;
      }
      if (!change.status) return;
      sent = change.state;
      yield `event: status\ndata: ${change.text}\n\n`;
      if (!isOpenStatus(change.status)) return;
    }
  }

  const onEnd = () => {
    ignorePending?.();
    release();
  };
  return openEventStream({ drain, signal, messages, onEnd });
}
