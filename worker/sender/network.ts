import type { FirstHeads } from "../../core/domain/fee-raise.ts";
import type { Chain } from "../../core/rpc/chain-client.ts";
import type { WorkerDeps } from "../deps.ts";
import type { LedgerProgress } from "../payments/ledger-progress.ts";
import type { Lanes } from "./lanes.ts";
import type { RelayMetrics } from "./metrics.ts";

/**
 * What relaying on one network needs. `confirmations`: blocks until a settled payment counts as final. `spentAt`: by relay, a height at
 * which its nonce was seen spent though none of its attempts had a receipt. `firstHeads`: since which block attempts wait.
 * `held`: payments that wait for the ledger beside the drain.
 */
export type RelayNetwork = {
  deps: WorkerDeps;
  chain: Chain;
  lanes: Lanes;
  confirmations: number;
  metrics: RelayMetrics;
  spentAt: Map<bigint, bigint>;
  firstHeads: FirstHeads;
  ledger: LedgerProgress;
  held: Set<Promise<void>>;
};
