/** One leader's term on one network: the state that everything it does shares. */

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
  /** When the network was read for the first time; undefined where that is not recorded. */
  readonly startedAt?: Date | undefined;
  /** Aborted when the lock is lost or the process ends. */
  readonly signal: AbortSignal;
  /** Reads the past in ranges: what can wait does. */
  isCatchingUp?: boolean;
  /** The last block whose effects are committed. Moves only after a commit. */
  cursor: BlockPoint;
};

/** Another leader's term has begun, or the cursor was moved under us: nothing was written. */
export class FencedError extends Error {
  constructor(network: NetworkId) {
    super(`the cursor of ${network} belongs to another leader now`);
    this.name = "FencedError";
  }
}

/** Who sets the service up may pay it just before it starts. */
const REPORTED_BEFORE_START_S = 3_600;

/** How transfers of the past are stored: those from well before the network's first start are history that no reader of events waits for. */
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
