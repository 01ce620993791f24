/** Block announcements over WebSocket. They may stay out or come twice, so callers keep polling. */
import { fieldOf } from "./answers.ts";
import type { ChainNode } from "./node.ts";

const RECONNECT_FIRST_MS = 500;
const RECONNECT_MAX_MS = 30_000;
/** A socket without any block for this long counts as lost and is opened anew. */
const SILENCE_MAX_MS = 60_000;

/** `header` is the block's, as `eth_getBlockByNumber` would answer it, without its transactions. */
export type Announcement = { readonly blockNumber: number; readonly header: unknown };

/** Subscribes to `newHeads` on one node at a time, the next node after each loss. Returns the way to stop. */
export function listenForHeads(
  nodes: readonly ChainNode[],
  announce: (announcement: Announcement) => void,
): () => void {
  let isStopped = false;
  let failures = 0;
  let socket: WebSocket | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;

  function open(): void {
    const node = nodes[failures % nodes.length];
    if (isStopped || !node) return;
    socket = node.connect();
    const current = socket;
    const lose = () => {
      if (current !== socket) return;
      socket = undefined;
      current.close();
      failures += 1;
      schedule(open, Math.min(RECONNECT_FIRST_MS * 2 ** Math.min(failures - 1, 10), RECONNECT_MAX_MS));
    };
    current.onopen = () => {
      current.send(JSON.stringify({ jsonrpc: "2.0", id: 1, method: "eth_subscribe", params: ["newHeads"] }));
    };
    current.onmessage = (event) => {
      const announcement = readAnnouncement(event.data);
      if (!announcement) return;
      failures = 0;
      schedule(lose, SILENCE_MAX_MS);
      announce(announcement);
    };
    current.onerror = lose;
    current.onclose = lose;
    schedule(lose, SILENCE_MAX_MS);
  }

  function schedule(action: () => void, afterMs: number): void {
    clearTimeout(timer);
    if (isStopped) return;
    timer = setTimeout(action, afterMs);
    timer.unref?.();
  }

  open();
  return () => {
    isStopped = true;
    clearTimeout(timer);
    const current = socket;
    socket = undefined;
    current?.close();
  };
}

/** Of an `eth_subscription` notice; undefined for everything else. */
function readAnnouncement(text: unknown): Announcement | undefined {
  let message: unknown;
  try {
    message = JSON.parse(String(text));
  } catch {
    return undefined;
  }
  const header = fieldOf(fieldOf(message, "params"), "result");
  const number = fieldOf(header, "number");
  if (typeof number !== "string" || !/^0x[0-9a-f]{1,12}$/i.test(number)) return undefined;
  return { blockNumber: Number(number), header };
}
