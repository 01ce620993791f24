import type { RelayNetwork } from "../sender/relay-network.ts";
import type { BatchTiming } from "./batch-timing.ts";
import type { LedgerProgress } from "./ledger-progress.ts";
import type { PaymentMetrics } from "./metrics.ts";

/** What relaying payments on one network needs. `held`: payments that wait for the ledger outside the drain. */
export type PaymentNetwork = RelayNetwork & {
  metrics: PaymentMetrics;
  ledger: LedgerProgress;
  held: Set<Promise<void>>;
  timing: BatchTiming;
};
