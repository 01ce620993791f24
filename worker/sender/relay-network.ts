import type { FirstHeads } from "../../core/domain/raise-fees.ts";
import type { Chain } from "../../core/rpc/chain-client.ts";
import type { WorkerDeps } from "../deps.ts";
import type { RelayMetrics } from "./metrics.ts";
import type { RelayKinds } from "./relay-kind.ts";
import type { Lanes } from "./relayer-lanes.ts";

/**
 * What sending transactions on one network needs. `confirmations`: blocks until a mined transaction counts as final. `usedSeenAt`: by relay, a
 * height at which its nonce was seen used although none of its attempts had a receipt. `firstHeads`: the block since which attempts have been
 * waiting.
 */
export type RelayNetwork = {
  deps: WorkerDeps;
  chain: Chain;
  lanes: Lanes;
  confirmations: number;
  metrics: RelayMetrics;
  usedSeenAt: Map<bigint, bigint>;
  firstHeads: FirstHeads;
  kinds: RelayKinds;
};
