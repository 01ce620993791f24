/**
 * The loop of one network: monitors its transactions each half second and after each block the indexer has read, and drains the queues
 * that send through it.
 */
import { openFailureLog } from "../../core/runtime/failure-log.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { openMonitorLease } from "./monitor-lease.ts";
import { isNodeUnavailable } from "./monitor-relays.ts";
import type { RelayNetwork } from "./relay-network.ts";

const INTERVAL_MS = 500;
/** Minimum interval between wake-ups by blocks. */
const WAKE_MIN_MS = 100;
const BLOCK_CHANNEL = "block";

/** Work stored in rows that needs transactions. `drain` runs on each iteration unless it is still running; `close` ends what it left running. */
export type RelayQueue = {
  name: string;
  drain(): Promise<void>;
  noteBlock?(number: bigint): void;
  /** Another worker is draining it and continues under load. */
  isDrainedElsewhere?(): boolean;
  close?(): Promise<void>;
};

/** Starts the loop. Returns a function that stops it. */
export async function startNetworkLoop(
  listener: Sql,
  network: RelayNetwork,
  queues: readonly RelayQueue[],
): Promise<() => Promise<void>> {
  const { deps, chain } = network;
  const monitorLease = openMonitorLease(network);
  const logFailure = openFailureLog(deps.log);
  const draining = new Map<RelayQueue, Promise<void>>();
  let stopped = false;
  // a monotonic clock: a wall clock that is set back would stop the loop for as long
  let lastMs = 0;
  let dueMs = 0;
  let wake: (() => void) | undefined;
  const listening = await listener.listen(BLOCK_CHANNEL, (payload) => {
    const [id, number = ""] = payload.split(":");
    if (id !== chain.network.id) return;
    if (/^\d+$/.test(number)) for (const queue of queues) queue.noteBlock?.(BigInt(number));
    // of several workers one has work after each block, unless it or another one is draining; the others run on their timers
    if (!monitorLease.isHeld() || draining.size > 0) return;
    if (queues.some((queue) => queue.isDrainedElsewhere?.())) return;
    dueMs = Math.min(dueMs, lastMs + WAKE_MIN_MS);
    wake?.();
  });

  async function attempt(what: string, work: () => Promise<unknown>): Promise<void> {
    try {
      await work();
    } catch (error) {
      const level = isNodeUnavailable(error) ? "warn" : "error";
      logFailure(level, { network: chain.network.id, err: error }, `${what} failed; retrying`);
    }
  }

  /** A drain that continues under load is not awaited: its transactions are monitored while it runs. */
  function drainQueues(): void {
    for (const queue of queues) {
      if (draining.has(queue)) continue;
      const drained = attempt(queue.name, () => queue.drain()).finally(() => draining.delete(queue));
      draining.set(queue, drained);
    }
  }

  async function waitUntilDue(): Promise<void> {
    while (!stopped && performance.now() < dueMs) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const timer = setTimeout(resolve, Math.max(0, dueMs - performance.now()));
      wake = resolve;
      await promise;
      clearTimeout(timer);
    }
  }

  async function run(): Promise<void> {
    while (!stopped) {
      lastMs = performance.now();
      dueMs = lastMs + INTERVAL_MS;
      await attempt("monitoring relays", () => monitorLease.pass());
      // also after an error: what can't be sent must not wait forever
      drainQueues();
      await waitUntilDue();
    }
  }

  const running = run();
  return async () => {
    stopped = true;
    wake?.();
    await Promise.all([running, ...queues.map((queue) => queue.close?.())]);
    await Promise.all(draining.values());
    await attempt("releasing the monitor's lease", () => monitorLease.release());
    await listening.unlisten();
  };
}
