/** Block announcements over WebSocket. They may be missing or duplicated, so callers keep polling. */

import type { ChainNode } from "./node.ts";
import { fieldOf } from "./parse-answers.ts";
import { openSubscriptions } from "./subscription-socket.ts";

/** `header` is the block's, as `eth_getBlockByNumber` would answer it, without its transactions. */
export type Announcement = { readonly blockNumber: number; readonly header: unknown };

/** Subscribes to `newHeads` on one node at a time, the next node after each loss. Returns a function that stops it. */
export function listenForHeads(
  nodes: readonly ChainNode[],
  announce: (announcement: Announcement) => void,
): () => void {
  const { stop } = openSubscriptions(nodes, {
    subscriptions: [["newHeads"]],
    isProbed: false,
    onEvent(header) {
      const blockNumber = parseNumber(fieldOf(header, "number"));
      if (blockNumber !== undefined) announce({ blockNumber, header });
      return blockNumber !== undefined;
    },
  });
  return stop;
}

function parseNumber(value: unknown): number | undefined {
  return typeof value === "string" && /^0x[0-9a-f]{1,12}$/i.test(value) ? Number(value) : undefined;
}
