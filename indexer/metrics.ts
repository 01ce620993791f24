/** Prometheus metrics of the indexer. */
import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import type { NetworkId } from "../core/domain/networks.ts";

/** Kinds of records that an account wrote itself, which a block can be committed without. */
const REFUSABLE_RECORDS = ["operation", "account_change", "conclusion", "report"] as const;
export type RefusableRecord = (typeof REFUSABLE_RECORDS)[number];

export type IndexerMetrics = ReturnType<typeof openIndexerMetrics>;

export function openIndexerMetrics(registry: Registry) {
  const registers = [registry];
  const gauge = (name: string, help: string) => new Gauge({ name, help, labelNames: ["network"], registers });
  const counter = (name: string, help: string, labels: string[] = []) =>
    new Counter({ name, help, labelNames: ["network", ...labels], registers });
  const head = gauge("indexer_head_block", "Newest block that a node reported");
  const cursor = gauge("indexer_cursor_block", "Last block whose effects are committed");
  const lagBlocks = gauge("indexer_lag_blocks", "Head block minus cursor block");
  const lagSeconds = gauge(
    "indexer_lag_seconds",
    "Head block time minus cursor block time; after a start, minus the first head's time until a block is committed",
  );
  const polled = gauge(
    "indexer_last_poll_timestamp_seconds",
    "Unix time of the last successful poll of the chain, or of the start before the first: while no node responds, neither this nor the lag changes",
  );
  const leader = gauge("indexer_leader", "1 while this process leads the network");
  const wallets = gauge("indexer_watched_wallets", "Wallets followed");
  const differences = gauge(
    "indexer_reconciliation_differences",
    "Differences found by the last reconciliation; must be 0",
  );
  const blocks = counter("indexer_blocks_total", "Blocks committed");
  const transfers = counter("indexer_transfers_total", "Committed transfers of followed wallets");
  const logs = counter("indexer_logs_total", "USDC logs read");
  const reorgs = counter("indexer_reorgs_total", "Reorganisations undone");
  const reorgBlocks = counter("indexer_reorg_blocks_total", "Blocks undone by reorganisations");
  const failed = counter(
    "indexer_poll_failures_total",
    "Failed polls of the chain; the error is in the log and in /health",
  );
  const rejected = counter(
    "indexer_rejected_answers_total",
    "Node responses that were rejected as untrustworthy",
    ["kind"],
  );
  const refused = counter(
    "indexer_refused_records_total",
    "Chain records that were left out when their blocks were committed, because the database refuses them",
    ["kind"],
  );
  const applySeconds = new Histogram({
    name: "indexer_apply_seconds",
    help: "Time from first hearing of a block to committing its effects",
    labelNames: ["network"],
    buckets: [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    registers,
  });
  /** Block time of the cursor, if known. */
  const cursorTimesS = new Map<NetworkId, number>();
  const pollTimesS = new Map<NetworkId, number>();
  const notePoll = (network: NetworkId, timeS: number) => {
    pollTimesS.set(network, timeS);
    polled.set({ network }, timeS);
  };
  const noteHead = (network: NetworkId, at: { head: number; headTimeS: number; cursor: number }) => {
    const cursorTimeS = cursorTimesS.get(network) ?? at.headTimeS;
    cursorTimesS.set(network, cursorTimeS);
    head.set({ network }, at.head);
    cursor.set({ network }, at.cursor);
    lagBlocks.set({ network }, Math.max(0, at.head - at.cursor));
    lagSeconds.set({ network }, Math.max(0, at.headTimeS - cursorTimeS));
  };
  return {
    following(
      network: NetworkId,
      at: { head: number; headTimeS: number; cursor: number; cursorTimeS: number; wallets: number },
    ) {
      cursorTimesS.set(network, at.cursorTimeS);
      noteHead(network, at);
      wallets.set({ network }, at.wallets);
    },
    /** Set before the blocks up to it are read, so that a node that reports new heads but refuses their logs shows as lag. */
    sawHead: noteHead,
    polled: (network: NetworkId) => notePoll(network, Date.now() / 1000),
    pollFailed: (network: NetworkId) => failed.inc({ network }),
    /** A process that is not the leader does not know the lag, and a value from its last term would look current. */
    leading(network: NetworkId, isLeader: boolean) {
      leader.set({ network }, isLeader ? 1 : 0);
      // initialised at startup, because a counter that first appears with an event shows no increase
      for (const counted of [reorgs, reorgBlocks, failed]) counted.inc({ network }, 0);
      for (const kind of REFUSABLE_RECORDS) refused.inc({ network, kind }, 0);
      // also visible for a leader that no node has responded to yet, even when its terms keep failing
      if (isLeader) return notePoll(network, pollTimesS.get(network) ?? Date.now() / 1000);
      cursorTimesS.delete(network);
      for (const known of [head, cursor, lagBlocks, lagSeconds, polled, wallets, differences])
        known.remove({ network });
    },
    committed(
      network: NetworkId,
      what: { blocks: number; transfers: number; logs: number; seconds: number },
    ) {
      blocks.inc({ network }, what.blocks);
      transfers.inc({ network }, what.transfers);
      logs.inc({ network }, what.logs);
      applySeconds.observe({ network }, what.seconds);
    },
    reorged(network: NetworkId, depthBlocks: number) {
      reorgs.inc({ network });
      reorgBlocks.inc({ network }, depthBlocks);
    },
    rejectedAnswer: (network: NetworkId, kind: string) => rejected.inc({ network, kind }),
    refusedRecord: (network: NetworkId, kind: RefusableRecord) => refused.inc({ network, kind }),
    reconciled: (network: NetworkId, found: number) => differences.set({ network }, found),
  };
}
