/** One leader's term on one network: the state shared by everything it does. Its epoch fences off former leaders (db/ledger/leader-epoch.ts). */

import type { NetworkId } from "../core/domain/networks.ts";
import type { Chain } from "../core/rpc/chain-client.ts";
import type { Log } from "../core/runtime/log.ts";
import type { Bulk } from "../db/ledger/bulk-transfers.ts";
import type { BlockPoint } from "../db/ledger/cursors.ts";
import type { Sql } from "../db/postgres/client.ts";
import type { IndexerMetrics } from "./metrics.ts";
import type { Watch } from "./source/block-logs.ts";
import { walletBits } from "./source/block-logs.ts";
import type { WatchedSet } from "./source/watched-wallets.ts";

export type Term = {
  readonly network: NetworkId;
  readonly chain: Chain;
  readonly sql: Sql;
  readonly log: Log;
  readonly metrics: IndexerMetrics;
  readonly confirmations: number;
  /** Micro-USDC; see `recomputeLinkStatus`. */
  readonly mismatchMinUnits: bigint;
  readonly epoch: bigint;
  readonly watched: WatchedSet;
  /** When the network was first read; undefined if not recorded. */
  readonly startedAt?: Date | undefined;
  /** Aborted when the lock is lost or the process ends. */
  readonly signal: AbortSignal;
  /** Whether it is catching up in ranges, during which non-urgent work is deferred. */
  isCatchingUp?: boolean;
  /** The last block whose effects are committed. Moves only after a commit. */
  cursor: BlockPoint;
};

/** Another leader's term has begun, or the cursor was moved by someone else: nothing was written. */
export class FencedError extends Error {
  constructor(network: NetworkId) {
    super(`the cursor of ${network} belongs to another leader now`);
    this.name = "FencedError";
  }
}

/** Tolerance for payments made just before the service first starts. */
const REPORTED_BEFORE_START_S = 3_600;

/** How past transfers are stored: those from well before the network's first start are history without events. */
export function bulkOf({ startedAt }: Pick<Term, "startedAt">): Bulk {
  const eventsFromS = startedAt
    ? startedAt.getTime() / 1000 - REPORTED_BEFORE_START_S
    : Number.NEGATIVE_INFINITY;
  return { eventsFromS };
}

export function watchOf(watched: WatchedSet): Watch {
  let bits: ReturnType<typeof walletBits> | undefined;
  return {
    wantsAuthorizations: true,
    isWatched: (address) => watched.has(address),
    get size() {
      return watched.size;
    },
    bits() {
      if (bits?.length !== watched.size) bits = walletBits(watched);
      return bits;
    },
  };
}
