import type { NetworkId } from "../core/domain/networks.ts";
import type { Chain } from "../core/rpc/chain-client.ts";
import type { Log } from "../core/runtime/log.ts";
import type { Metrics } from "../core/runtime/metrics.ts";
import type { Sql } from "../db/postgres/client.ts";
import type { Reader } from "../db/postgres/replica.ts";
import type { WorkerConfig } from "./config.ts";

/** The dependencies of every task of the worker. */
export type WorkerDeps = {
  readonly sql: Sql;
  /** For exports, which a replica may serve. */
  readonly reader: Reader;
  /** For leases and advisory updates, whose loss only costs a retry: commits here don't wait for the disk. */
  readonly asyncCommitSql: Sql;
  readonly log: Log;
  readonly chains: ReadonlyMap<NetworkId, Chain>;
  /** The same nodes, used only for proofs, so that refusals there do not affect payments. */
  readonly proofChains: ReadonlyMap<NetworkId, Chain>;
  readonly config: WorkerConfig;
  readonly metrics: Metrics;
  /** Aborted when the process is asked to stop. */
  readonly stop: AbortSignal;
};
