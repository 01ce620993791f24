/**
 * One of several workers monitors a network, each time the same one: what a pass asks of the database and of nodes is asked once,
 * however many workers there are. Whose pass failed leaves the next ones to others: its nodes may be the ones that do not answer. And nobody
 * keeps it for long, since a pass can end well and leave undone what this worker has no signer, no key or no current node for.
 */
import { hasOtherWorkers } from "../../db/health/processes.ts";
import { endMonitorTurn, type MonitorTurn, takeMonitorTurn } from "../../db/relays/monitor-turn.ts";
import { monitorRelays, reportMarket } from "./monitor.ts";
import type { RelayNetwork } from "./network.ts";

/** Extended by each pass. A worker that died or hangs is followed by another after so long. */
const TURN_MS = 1_000;
/** Then it is left to others, where there are any. */
const TURN_KEPT_MS = 30_000;
/** Between two reports of balances and head by a worker whose turn it is not. */
const REPORT_MS = 5_000;
const HOLDER = crypto.randomUUID();

export type Turns = {
  /** A pass of the monitor, when it is this worker's turn. */
  pass(): Promise<void>;
  /** Lets another worker have it at once. */
  end(): Promise<void>;
};

export function openTurns(
  network: RelayNetwork,
  { holder = HOLDER, keptMs = TURN_KEPT_MS }: { holder?: string; keptMs?: number } = {},
): Turns {
  const { sql } = network.deps;
  const turn: MonitorTurn = { network: network.chain.network.id, holder };
  let reportedMs = 0;
  let leftUntilMs = 0;
  let sinceMs: number | undefined;

  async function leave(): Promise<void> {
    sinceMs = undefined;
    leftUntilMs = Date.now() + TURN_MS;
    await endMonitorTurn(sql, turn);
  }

  return {
    async pass() {
      const isLeft = Date.now() < leftUntilMs;
      if (!isLeft && (await takeMonitorTurn(sql, { ...turn, leaseMs: TURN_MS }))) {
        sinceMs ??= Date.now();
        try {
          await monitorRelays(network);
        } catch (error) {
          await leave();
          throw error;
        }
        if (Date.now() - sinceMs < keptMs) return;
        if (await hasOtherWorkers(sql)) await leave();
        else sinceMs = undefined;
        return;
      }
      sinceMs = undefined;
      if (Date.now() - reportedMs < REPORT_MS) return;
      reportedMs = Date.now();
      await reportMarket(network);
    },
    end: () => endMonitorTurn(sql, turn),
  };
}
