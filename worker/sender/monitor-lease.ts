/**
 * Only one of several workers monitors a network, normally the same one, so that a pass queries the database and nodes once however many workers
 * there are. A worker whose pass failed releases the lease, because its nodes may be the ones that do not respond. And no worker keeps
 * it for long, since a pass can succeed and still skip work for which this worker has no signer, no key or no current node.
 */
import { hasOtherWorkers } from "../../db/health/process-heartbeats.ts";
import { type MonitorLease, releaseMonitorLease, takeMonitorLease } from "../../db/relays/monitor-leases.ts";
import { monitorRelays, reportMarket } from "./monitor-relays.ts";
import type { RelayNetwork } from "./relay-network.ts";

/** Extended by each pass. Another worker takes over this long after one died or hung. */
const LEASE_MS = 1_000;
/** After this it is left to other workers, if there are any. */
const LEASE_KEPT_MS = 30_000;
/** Interval of balance and head reports by a worker that does not hold the lease. */
const REPORT_MS = 5_000;
const HOLDER = crypto.randomUUID();

export type HeldLease = {
  /** A pass of the monitor, while this worker holds the lease. */
  pass(): Promise<void>;
  /** As of the last pass. */
  isHeld(): boolean;
  /** Releases the lease so that another worker can take it immediately. */
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
