/** The worker process: runs the job queue and relays transactions. Any number of them may run on one database. */
import { openChain } from "../core/rpc/chain-client.ts";
import { wrongChainLog } from "../core/runtime/chain-env.ts";
import { exitMisconfigured, readEnvOrExit } from "../core/runtime/env.ts";
import { openFailureLog } from "../core/runtime/failure-log.ts";
import { openLog } from "../core/runtime/log.ts";
import { inspectMachine } from "../core/runtime/machine-limits.ts";
import { openMetrics, openReadMetrics } from "../core/runtime/metrics.ts";
import { handleStop } from "../core/runtime/shutdown.ts";
import { statusPage } from "../core/status-page/serve-status-page.ts";
import { openTracing } from "../core/tracing/open-tracing.ts";
import { reportProcess } from "../db/health/process-heartbeats.ts";
import { readServiceStatus, type WorkerDetails } from "../db/health/service-status.ts";
import { openDatabase } from "../db/postgres/client.ts";
import { inspectDatabase } from "../db/postgres/inspect-database.ts";
import { openReader } from "../db/postgres/replica.ts";
import { openDatabaseWait } from "../db/postgres/retry-while-unavailable.ts";
import packageJson from "../package.json" with { type: "json" };
import { readWorkerConfig } from "./config.ts";
import { runQueue } from "./jobs/job-queue.ts";
import { openWaitingMetrics } from "./jobs/waiting-metrics.ts";
import { openMailer } from "./mail/mailer.ts";
import { openBatchTiming } from "./payments/batch-timing.ts";
import { checkUsdcContracts } from "./payments/check-usdc-contract.ts";
import { openLedgerProgress } from "./payments/ledger-progress.ts";
import { openPaymentMetrics } from "./payments/metrics.ts";
import { paymentBudgets } from "./payments/payment-budgets.ts";
import type { PaymentNetwork } from "./payments/payment-network.ts";
import { openPaymentRelays } from "./payments/payment-relays.ts";
import { drainPayments } from "./payments/relay-payments.ts";
import { openBudgetMetrics } from "./sender/budget-metrics.ts";
import { openRelayMetrics } from "./sender/metrics.ts";
import { type RelayQueue, startNetworkLoop } from "./sender/network-loop.ts";
import { openLanes, readBalances } from "./sender/relayer-lanes.ts";
import { singleFlight } from "./sender/single-flight.ts";
import { openTasks } from "./tasks.ts";
import { OPERATION_RELAYS } from "./wallet-ops/operation-relays.ts";
import { sendBudgets } from "./wallet-ops/send-budgets.ts";
import { sendOperations } from "./wallet-ops/send-operations.ts";
import { endDeliveries } from "./webhooks/deliver-webhooks.ts";

const RPC_TIMEOUT_MS = 5_000;
/** Running jobs end first, and webhooks in flight, which wait for their receivers for ten seconds. */
const QUEUE_TIMEOUT_MS = 12_000;
/** Time to release locks: an unreachable database must not delay the stop, and its locks end with the connections. */
const CLOSE_TIMEOUT_MS = 1_500;

/** One export is rendered at a time, and another one with proofs concurrently. */
const READ_CONNECTIONS = 2;
/** How long an export waits for a replica that lags. */
const REPLICA_WAIT_MS = 5_000;

const config = readEnvOrExit(() => readWorkerConfig());
const log = openLog("worker", config.logLevel);
for (const risk of config.risks) log.warn({ risk }, "insecure setting");
for (const risk of inspectMachine()) log.warn({ risk }, "machine at its limit");
const stop = handleStop(log);
const metrics = openMetrics("worker", config.metrics);
stop.onStop("metrics", () => metrics.close());
const tracing = await openTracing("worker", config.traces);
stop.onStop("traces", () => tracing.close());
const sql = openDatabase(config.databaseUrl, {
  name: "worker",
  maxConnections: config.connections.pool,
});
stop.onStop("database", () => sql.end({ timeout: 2 }));
const plannedSql = openDatabase(config.databaseUrl, {
  name: "worker planned",
  maxConnections: config.connections.planned,
  genericPlans: true,
});
stop.onStop("planned statements", () => plannedSql.end({ timeout: 2 }));
const asyncCommitSql = openDatabase(config.databaseUrl, {
  name: "worker async",
  maxConnections: config.connections.asyncCommit,
  asynchronousCommit: true,
  genericPlans: true,
});
stop.onStop("async commits", () => asyncCommitSql.end({ timeout: 2 }));

const waitForDatabase = openDatabaseWait(config.databaseUrl, { log, onGivenUp: stop.fail });
const database = await waitForDatabase(() => inspectDatabase(sql, config.databaseUrl));
if (database.refusal) exitMisconfigured(database.refusal);
for (const risk of database.risks) log.warn({ risk }, "database at risk");
const networkIds = config.chains.map(({ id }) => id);
metrics.addPage(
  "/ops",
  statusPage(`worker ${packageJson.version}`, () => readServiceStatus(sql, networkIds)),
);

const openChains = (isReported: boolean) =>
  new Map(
    config.chains.map(({ id, rpcUrls }) => [
      id,
      openChain({
        ...{ network: id, urls: rpcUrls, timeoutMs: RPC_TIMEOUT_MS },
        ...(isReported ? { onWrongChain: wrongChainLog(log, id) } : {}),
      }),
    ]),
  );
const [chains, proofChains] = [openChains(true), openChains(false)];
for (const chain of chains.values()) void chain.refreshHeads();
for (const opened of [chains, proofChains])
  stop.onStop("chains", () => opened.forEach((chain) => void chain.close()));
await checkUsdcContracts([...chains.values()], { log, stop });

const replica = config.databaseReadUrl
  ? openDatabase(config.databaseReadUrl, { name: "worker reads", maxConnections: READ_CONNECTIONS })
  : undefined;
stop.onStop("replica", () => replica?.end({ timeout: 2 }));
const onRead = openReadMetrics(metrics.registry);
const logFailure = openFailureLog(log);
const onForeign = (message: string) => logFailure("error", { err: undefined }, message);
const reader = openReader(sql, { replica, waitMs: REPLICA_WAIT_MS, onRead, onForeign });

const deps = { sql, reader, asyncCommitSql, log, chains, proofChains, config, metrics, stop: stop.signal };
// payment statements never vary, so a connection plans each of them once
const senderDeps = { ...deps, sql: plannedSql };
const relayMetrics = { ...openRelayMetrics(metrics.registry), ...openPaymentMetrics(metrics.registry) };
openWaitingMetrics(metrics.registry, sql);
openBudgetMetrics(metrics.registry, {
  ...{ sql, networks: [...chains.keys()], budgets: { ...paymentBudgets(config), ...sendBudgets(config) } },
  maxFeeWei: config.relayMaxFeeWei,
  dailyFeeMaxWei: config.relayDailyFeeMaxWei,
});
const kinds = { PAYMENTS: openPaymentRelays({ log }), DEPLOY: {}, NOOP: {}, OPERATIONS: OPERATION_RELAYS };
const networks = new Map(
  [...chains].map(([id, chain]): [typeof id, PaymentNetwork] => {
    const keys = config.relayerKeys.get(id) ?? [];
    const confirmations = config.chains.find((settings) => settings.id === id)?.confirmations ?? 1;
    const lanes = openLanes(plannedSql, chain, keys, {
      maxFeeWei: config.relayMaxFeeWei,
      dailyFeeMaxWei: config.relayDailyFeeMaxWei,
      headMaxAgeS: config.relayHeadMaxAgeS[id],
    });
    const memory = { usedSeenAt: new Map(), firstHeads: new Map() };
    const ledger = {
      ledger: openLedgerProgress(),
      held: new Set<Promise<void>>(),
      timing: openBatchTiming(),
    };
    const shared = { deps: senderDeps, chain, lanes, confirmations, metrics: relayMetrics, kinds };
    return [id, { ...shared, ...memory, ...ledger }];
  }),
);
const drains = new Map(
  [...networks].map(([id, network]) => [id, singleFlight(() => drainPayments(network))]),
);
const operationDrains = new Map(
  [...networks].map(([id, network]) => [id, singleFlight(() => sendOperations(network))]),
);
for (const [id, network] of networks) {
  const { ledger, held, timing } = network;
  const payments: RelayQueue = {
    name: "relaying payments",
    drain: async () => drains.get(id)?.(),
    noteBlock: (number) => ledger.noteRead(number),
    isDrainedElsewhere: () => timing.isDrainedElsewhere(),
    async close() {
      ledger.close();
      await Promise.all(held);
    },
  };
  const operations: RelayQueue = {
    name: "sending operations",
    drain: async () => operationDrains.get(id)?.(),
  };
  const stopLoop = await waitForDatabase(() => startNetworkLoop(sql, network, [payments, operations]));
  stop.onStop(`relaying on ${id}`, stopLoop, CLOSE_TIMEOUT_MS);
}

const stopReporting = reportProcess(sql, {
  kind: "worker",
  version: packageJson.version,
  readDetails: () =>
    ({
      balances: readBalances([...networks.values()]),
      relayers: [...config.relayerKeys].flatMap(([id, keys]) =>
        keys.map(({ address }) => `${id} ${address}`),
      ),
    }) satisfies WorkerDetails,
});
stop.onStop("report", stopReporting, CLOSE_TIMEOUT_MS);

const mailer = openMailer(config);
stop.onStop("mailer", () => mailer.close());
const taskList = openTasks({ ...deps, mailer }, networks, drains, operationDrains);
const { databaseUrl, concurrency, connections } = config;
const stopQueue = await waitForDatabase(() =>
  runQueue({ sql, log, databaseUrl, concurrency, maxConnections: connections.queue, taskList }),
);
stop.onStop("queue", () => endDeliveries(deps, stopQueue()), QUEUE_TIMEOUT_MS);
log.info({ networks: [...chains.keys()], concurrency: config.concurrency }, "worker is ready");
