/**
 * Detects a node that answers but has stopped following the chain. Calls only go to the healthiest node, so they do not show that
 * others are ahead of it: while the head does not move, or nodes disagree, each node's head is read.
 */
import type { Chain } from "./chain-client.ts";
import { hasLagging } from "./node-health.ts";

/** Five blocks on Base. */
const STALLED_MS = 10_000;
/** Heads count for longer than this, so that a node that lags stays behind until it has caught up. */
const COMPARE_EVERY_MS = 5_000;

export type StalledNodeDetector = {
  /** Call with every head that is read. Queries nodes in the background, without delaying the caller. */
  note: (blockNumber: number) => void;
};

export function openStalledNodeDetector(chain: Chain): StalledNodeDetector {
  let newest = -1;
  let movedMs = performance.now();
  let comparedMs = Number.NEGATIVE_INFINITY;
  return {
    note(blockNumber) {
      const nowMs = performance.now();
      if (blockNumber > newest) movedMs = nowMs;
      newest = Math.max(newest, blockNumber);
      if (chain.nodes.length < 2 || nowMs - comparedMs < COMPARE_EVERY_MS) return;
      if (nowMs - movedMs < STALLED_MS && !hasLagging(chain.nodes, performance.now())) return;
      comparedMs = nowMs;
      void chain.refreshHeads();
    },
  };
}
