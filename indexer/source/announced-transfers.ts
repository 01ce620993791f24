/** Subscribes to a node's announcements of transfers to our wallets, while their addresses fit into subscriptions. */
import { topicOfAddress } from "../../core/chain/bloom.ts";
import { TRANSFER_TOPIC } from "../../core/chain/usdc.ts";
import type { Chain } from "../../core/rpc/chain-client.ts";
import type { SubscriptionSocket } from "../../core/rpc/subscription-socket.ts";
import { TOPIC_VALUES_MAX } from "./past-logs.ts";
import type { WatchedSet } from "./watched-wallets.ts";

const WALLETS_MAX = 10 * TOPIC_VALUES_MAX;

export type AnnouncedTransfers = {
  /** Listens for all current wallets, or stops listening. */
  listen: (wallets: WatchedSet | undefined) => void;
  isLive: () => boolean;
};

export function openAnnouncedTransfers(
  chain: Chain,
  announce: (blockNumber: number) => void,
): AnnouncedTransfers {
  let socket: SubscriptionSocket | undefined;
  let size = 0;
  return {
    listen(wallets) {
      const wanted = wallets && wallets.size <= WALLETS_MAX ? wallets.size : 0;
      // wallets are only ever added
      if (wanted === size) return;
      socket?.stop();
      size = wanted;
      socket = wallets && wanted > 0 ? chain.onNewLogs(filtersOf(chain, wallets), announce) : undefined;
    },
    isLive: () => socket?.isLive() ?? false,
  };
}

function filtersOf(chain: Chain, wallets: Iterable<`0x${string}`>) {
  const topics = Array.from(wallets, topicOfAddress);
  const { address } = chain.network.usdc;
  return Array.from({ length: Math.ceil(topics.length / TOPIC_VALUES_MAX) }, (_, index) => {
    const start = index * TOPIC_VALUES_MAX;
    return { address, topics: [TRANSFER_TOPIC, null, topics.slice(start, start + TOPIC_VALUES_MAX)] };
  });
}
