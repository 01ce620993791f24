/**
 * Leader election per network. A leader that lost its lock without noticing can't write, because the next one has raised the epoch
 * (db/ledger/cursors.ts), a fencing token. It notices when its connection ends, or at its next heartbeat. A standby replaces a leader whose
 * heartbeats stopped although its connections are still open.
 */
import type { NetworkId } from "../core/domain/networks.ts";
import { openFailureLog } from "../core/runtime/failure-log.ts";
import type { Log } from "../core/runtime/log.ts";
import { type IndexerLeaderLock, openIndexerLeaderLock } from "../db/ledger/indexer-leader-lock.ts";

const TRY_EVERY_MS = 250;
/** How often a standby checks for a frozen leader. */
const CHECK_LEADER_MS = 1_000;
const HEARTBEAT_MS = 1_000;
const HEARTBEAT_TIMEOUT_MS = 5_000;

export type Leadership = {
  /** Aborted when the lock is lost. */
  lost: AbortSignal;
  release: () => Promise<void>;
};

/** Waits until this process leads the network; undefined when `stop` comes first. */
export async function waitForLeadership(
  databaseUrl: string,
  network: NetworkId,
  { stop, log, name = "indexer-lead" }: { stop: AbortSignal; log: Log; name?: string },
): Promise<Leadership | undefined> {
  const lost = new AbortController();
  const logFailure = openFailureLog(log);
  let isLeading = false;
  const lock = openIndexerLeaderLock(databaseUrl, network, {
    name,
    onBroken: () => {
      if (isLeading) lost.abort();
    },
  });
  let checkedMs = performance.now();
  while (!stop.aborted) {
    try {
      isLeading = await lock.tryToTake();
      if (isLeading) return keepLeading(lock, lost, { network, log });
      if (performance.now() - checkedMs >= CHECK_LEADER_MS) {
        checkedMs = performance.now();
        if (await lock.endFrozenLeader())
          log.warn({ network }, "the leader is frozen: its lock was terminated, the next indexer takes over");
      }
    } catch (error) {
      logFailure("warn", { network, err: error }, "could not determine the leader");
    }
    await sleep(TRY_EVERY_MS, stop);
  }
  await lock.close();
  return undefined;
}

function keepLeading(
  lock: IndexerLeaderLock,
  lost: AbortController,
  { network, log }: { network: NetworkId; log: Log },
): Leadership {
  const timer = setInterval(async () => {
    const timeout = Bun.sleep(HEARTBEAT_TIMEOUT_MS).then(() => false);
    const isHeld = await Promise.race([lock.keepAlive().catch(() => false), timeout]);
    if (!isHeld) lost.abort();
  }, HEARTBEAT_MS);
  const warn = () => log.warn({ network }, "the leader's lock was lost");
  lost.signal.addEventListener("abort", warn);
  const release = async () => {
    clearInterval(timer);
    lost.signal.removeEventListener("abort", warn);
    await lock.release().catch(() => undefined);
    // whatever its state: the lock ends with its connection
    await lock.close().catch(() => undefined);
  };
  return { lost: lost.signal, release };
}

/** Ends early when `signal` is aborted. */
export function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener("abort", end, { once: true });
  });
}
