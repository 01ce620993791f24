/** Runs the indexer of one network: waits as a standby, leads, follows the chain, steps down, and starts again. */

import type { NetworkId } from "../core/domain/networks.ts";
import type { Chain } from "../core/rpc/chain-client.ts";
import { openFailureLog } from "../core/runtime/failure-log.ts";
import type { Log } from "../core/runtime/log.ts";
import type { Sql } from "../db/postgres/client.ts";
import { runMaintenance } from "./audit/maintenance.ts";
import { beginLeaderTerm } from "./follow/begin-leader-term.ts";
import { followChain } from "./follow/follow-chain.ts";
import { FencedError } from "./leader-term.ts";
import { type Leadership, sleep, waitForLeadership } from "./leadership.ts";
import type { IndexerMetrics } from "./metrics.ts";

const RETRY_MS = 500;

export type NetworkParts = {
  network: NetworkId;
  confirmations: number;
  /** Micro-USDC below which a transfer of a wrong amount does not mark a link. */
  mismatchMinUnits: bigint;
  /** Interval of searches for logs that wallets write themselves. */
  accountLogsEveryMs: number;
  chain: Chain;
  sql: Sql;
  /** For the connection that holds the leader's lock. */
  databaseUrl: string;
  log: Log;
  metrics: IndexerMetrics;
  stop: AbortSignal;
};

/** Runs until `stop`. Never throws: errors are logged and the loop restarts. */
export async function runNetwork(parts: NetworkParts): Promise<void> {
  const { network, databaseUrl, log, metrics, stop } = parts;
  const logFailure = openFailureLog(log);
  // reported even by a process that never leads: an absent value would look like a missing network
  metrics.leading(network, false);
  while (!stop.aborted) {
    const leadership = await waitForLeadership(databaseUrl, network, { stop, log });
    if (!leadership) return;
    metrics.leading(network, true);
    try {
      await leadOnce(parts, leadership);
    } catch (error) {
      if (error instanceof FencedError) log.warn({ network }, error.message);
      else if (!stop.aborted)
        logFailure("error", { network, err: error }, "the leader's term ended with an error");
    } finally {
      metrics.leading(network, false);
      await leadership.release();
    }
    await sleep(RETRY_MS, stop);
  }
}

async function leadOnce(
  { stop, databaseUrl: _, accountLogsEveryMs, ...parts }: NetworkParts,
  leadership: Leadership,
): Promise<void> {
  const ended = new AbortController();
  const signal = AbortSignal.any([stop, leadership.lost, ended.signal]);
  const term = await beginLeaderTerm({ ...parts, signal });
  const { network, cursor, watched } = term;
  parts.log.info(
    { network, epoch: Number(term.epoch), cursor: cursor.number, wallets: watched.size },
    "leading",
  );
  const maintenance = runMaintenance(term, { accountLogsEveryMs });
  try {
    await followChain(term);
  } finally {
    ended.abort();
    await maintenance;
  }
}
