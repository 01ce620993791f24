/**
 * One of several workers monitors a network, each time the same one: what a pass asks of the database and of nodes is asked once,
 * however many workers there are. Whose pass failed leaves the next ones to others: its nodes may be the ones that do not answer.
 */
import { endMonitorTurn, type MonitorTurn, takeMonitorTurn } from "../../db/relays/monitor-turn.ts";
import { monitorRelays, reportMarket } from "./monitor.ts";
import type { RelayNetwork } from "./network.ts";

/** Extended by each pass. A worker that died or hangs is followed by another after so long. */
const TURN_MS = 1_000;
/** Between two reports of balances and head by a worker whose turn it is not. */
const REPORT_MS = 5_000;
const HOLDER = crypto.randomUUID();

export type Turns = {
  /** A pass of the monitor, when it is this worker's turn. */
  pass(): Promise<void>;
  /** Lets another worker have it at once. */
  end(): Promise<void>;
};

export function openTurns(network: RelayNetwork, holder: string = HOLDER): Turns {
  const { sql } = network.deps;
  const turn: MonitorTurn = { network: network.chain.network.id, holder };
  let reportedMs = 0;
  let leftUntilMs = 0;

  return {
    async pass() {
      const isLeft = Date.now() < leftUntilMs;
      if (!isLeft && (await takeMonitorTurn(sql, { ...turn, leaseMs: TURN_MS }))) {
        try {
          await monitorRelays(network);
        } catch (error) {
          leftUntilMs = Date.now() + TURN_MS;
          await endMonitorTurn(sql, turn);
          throw error;
        }
        return;
      }
      if (Date.now() - reportedMs < REPORT_MS) return;
      reportedMs = Date.now();
      await reportMarket(network);
    },
    end: () => endMonitorTurn(sql, turn),
  };
}
