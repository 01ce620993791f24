/** Announcements of logs over WebSocket. Only their block number is used: that block is worth reading now. */

import type { ChainNode } from "./node.ts";
import { fieldOf } from "./parse-answers.ts";
import { openSubscriptions, type SubscriptionSocket } from "./subscription-socket.ts";

export type SubscribedLogs = { readonly address: string; readonly topics: readonly unknown[] };

/** One subscription per filter, on one node at a time. */
export function listenForLogs(
  nodes: readonly ChainNode[],
  filters: readonly SubscribedLogs[],
  announce: (blockNumber: number) => void,
): SubscriptionSocket {
  return openSubscriptions(nodes, {
    subscriptions: filters.map((filter) => ["logs", filter]),
    isProbed: true,
    onEvent(log) {
      const number = fieldOf(log, "blockNumber");
      const isNumber = typeof number === "string" && /^0x[0-9a-f]{1,12}$/i.test(number);
      if (isNumber) announce(Number(number));
      return isNumber;
    },
  });
}
