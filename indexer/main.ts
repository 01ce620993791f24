/** The indexer process: one loop per network, each led by one process at a time. */
import { type Chain, openChain } from "../core/rpc/chain-client.ts";
import type { ChainSettings } from "../core/runtime/chain-env.ts";
import { wrongChainLog } from "../core/runtime/chain-env.ts";
import { exitMisconfigured, readEnvOrExit } from "../core/runtime/env.ts";
import { openLog } from "../core/runtime/log.ts";
import { inspectMachine } from "../core/runtime/machine-limits.ts";
import { openMetrics } from "../core/runtime/metrics.ts";
import { handleStop } from "../core/runtime/shutdown.ts";
import { statusPage } from "../core/status-page/serve-status-page.ts";
import { openTracing } from "../core/tracing/open-tracing.ts";
import { reportProcess } from "../db/health/process-heartbeats.ts";
import { readServiceStatus } from "../db/health/service-status.ts";
import { INDEXER_POOL_NAME } from "../db/ledger/indexer-leader-lock.ts";
import { openDatabase } from "../db/postgres/client.ts";
import { inspectDatabase } from "../db/postgres/inspect-database.ts";
import { openDatabaseWait } from "../db/postgres/retry-while-unavailable.ts";
import packageJson from "../package.json" with { type: "json" };
import { readIndexerConfig } from "./config.ts";
import { openIndexerMetrics } from "./metrics.ts";
import { runNetwork } from "./run-network.ts";

const RPC_TIMEOUT_MS = 5_000;
/** Shorter than the time until a frozen leader is replaced, since its successor needs the rows it locked. No transaction here waits for a node. */
const FROZEN_TRANSACTION_MS = 10_000;

/** Releases leaderships; if the database is unreachable they end with the connections. */
const CLOSE_TIMEOUT_MS = 3_000;
const REPORT_TIMEOUT_MS = 1_000;

const config = readEnvOrExit(() => readIndexerConfig());
const log = openLog("indexer", config.logLevel);
for (const risk of inspectMachine()) log.warn({ risk }, "machine at its limit");
const stop = handleStop(log);
const metricsServer = openMetrics("indexer", config.metrics);
const metrics = openIndexerMetrics(metricsServer.registry);
const tracing = await openTracing("indexer", config.traces);
const sql = openDatabase(config.databaseUrl, {
  name: INDEXER_POOL_NAME,
  maxConnections: config.poolConnections,
  genericPlans: true,
  idleInTransactionTimeoutMs: FROZEN_TRANSACTION_MS,
});

const waitForDatabase = openDatabaseWait(config.databaseUrl, { log, onGivenUp: stop.fail });
const database = await waitForDatabase(() => inspectDatabase(sql, config.databaseUrl));
if (database.refusal) exitMisconfigured(database.refusal);
for (const risk of database.risks) log.warn({ risk }, "database at risk");
const networkIds = config.chains.map(({ id }) => id);
metricsServer.addPage(
  "/ops",
  statusPage(`indexer ${packageJson.version}`, () => readServiceStatus(sql, networkIds)),
);

const runs = config.chains.map((settings) => run(settings, open(settings)));
stop.onStop("metrics", () => metricsServer.close());
stop.onStop("traces", () => tracing.close());
stop.onStop("database", () => sql.end({ timeout: 5 }));
const stopReporting = reportProcess(sql, { kind: "indexer", version: packageJson.version });
stop.onStop("report", stopReporting, REPORT_TIMEOUT_MS);
stop.onStop("networks", () => Promise.all(runs), CLOSE_TIMEOUT_MS);
log.info({ networks: config.chains.map(({ id }) => id) }, "indexer started");

function open({ id, rpcUrls }: ChainSettings): Chain {
  const onWrongChain = wrongChainLog(log, id);
  const chain = openChain({ network: id, urls: rpcUrls, timeoutMs: RPC_TIMEOUT_MS, onWrongChain });
  stop.onStop(`chain ${id}`, () => chain.close());
  // also by a standby, which asks the nodes nothing until it leads
  void chain.refreshHeads();
  return chain;
}

function run({ id, confirmations }: ChainSettings, chain: Chain): Promise<void> {
  const { databaseUrl, mismatchMinUnits, accountLogsEveryMs } = config;
  return runNetwork({
    network: id,
    confirmations,
    mismatchMinUnits,
    accountLogsEveryMs,
    chain,
    sql,
    databaseUrl,
    log,
    metrics,
    stop: stop.signal,
  });
}
