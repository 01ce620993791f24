/**
 * One of several workers monitors a network, each time the same one: what a pass asks of the database and of nodes is asked once,
 * however many workers there are. A worker whose pass failed lets the lease go: its nodes may be the ones that do not answer. And no
 * worker keeps it for long, since a pass can end well and leave undone what this worker has no signer, no key or no current node for.
 */
import { hasOtherWorkers } from "../../db/health/process-heartbeats.ts";
import { type MonitorLease, releaseMonitorLease, takeMonitorLease } from "../../db/relays/monitor-leases.ts";
import { monitorRelays, reportMarket } from "./monitor-relays.ts";
import type { RelayNetwork } from "./relay-network.ts";

/** Extended by each pass. A worker that died or hangs is followed by another after so long. */
const LEASE_MS = 1_000;
/** Then it is left to others, where there are any. */
const LEASE_KEPT_MS = 30_000;
/** Between two reports of balances and head by a worker that does not hold it. */
const REPORT_MS = 5_000;
const HOLDER = crypto.randomUUID();

export type HeldLease = {
  /** A pass of the monitor, while this worker holds the lease. */
  pass(): Promise<void>;
  /** As of the last pass. */
  isHeld(): boolean;
  /** So that another worker can take it immediately. */
  release(): Promise<void>;
};

export function openMonitorLease(
  network: RelayNetwork,
  { holder = HOLDER, keptMs = LEASE_KEPT_MS }: { holder?: string; keptMs?: number } = {},
): HeldLease {
  const { sql } = network.deps;
  const lease: MonitorLease = { network: network.chain.network.id, holder };
  let reportedMs = Number.NEGATIVE_INFINITY;
  let leftUntilMs = 0;
  let sinceMs: number | undefined;

  async function leave(): Promise<void> {
    sinceMs = undefined;
    leftUntilMs = performance.now() + LEASE_MS;
    await releaseMonitorLease(sql, lease);
  }

  return {
    async pass() {
      const isLeft = performance.now() < leftUntilMs;
      if (!isLeft && (await takeMonitorLease(sql, { ...lease, leaseMs: LEASE_MS }))) {
        sinceMs ??= performance.now();
        try {
          await monitorRelays(network);
        } catch (error) {
          await leave();
          throw error;
        }
        if (performance.now() - sinceMs < keptMs) return;
        if (await hasOtherWorkers(sql)) await leave();
        else sinceMs = undefined;
        return;
      }
      sinceMs = undefined;
      if (performance.now() - reportedMs < REPORT_MS) return;
      reportedMs = performance.now();
      await reportMarket(network);
    },
    isHeld: () => sinceMs !== undefined,
    release: () => releaseMonitorLease(sql, lease),
  };
}
