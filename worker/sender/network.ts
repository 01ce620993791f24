import type { FirstHeads } from "../../core/domain/fee-raise.ts";
import type { Chain } from "../../core/rpc/chain-client.ts";
import type { WorkerDeps } from "../deps.ts";
import type { Lanes } from "./lanes.ts";
import type { RelayMetrics } from "./metrics.ts";
import type { RelayKinds } from "./relay-kind.ts";

/**
 * What sending transactions on one network needs. `confirmations`: blocks until a mined transaction counts as final. `spentAt`: by relay,
 * a height at which its nonce was seen spent though none of its attempts had a receipt. `firstHeads`: since which block attempts wait.
 */
export type RelayNetwork = {
  deps: WorkerDeps;
  chain: Chain;
  lanes: Lanes;
  confirmations: number;
  metrics: RelayMetrics;
  spentAt: Map<bigint, bigint>;
  firstHeads: FirstHeads;
  kinds: RelayKinds;
};
