/** The worker process: runs the job queue, and keeps relayed transactions moving. Any number of them may run on one database. */
import { EventEmitter } from "node:events";
import { Logger, parseCronItems, run, type WorkerEvents } from "graphile-worker";
import { Pool } from "pg";
import { openChain } from "../core/chain/clients.ts";
import { readEnvOrExit } from "../core/runtime/env.ts";
import { type Log, openLog } from "../core/runtime/log.ts";
import { openMetrics } from "../core/runtime/metrics.ts";
import { handleStop } from "../core/runtime/stop.ts";
import { openDatabase } from "../db/client.ts";
import { readWorkerConfig, type WorkerConfig } from "./config.ts";
import { watchLiveness } from "./liveness.ts";
import { openMailer } from "./mailer.ts";
import { drainPayments } from "./relay/drain.ts";
import { openLanes } from "./relay/lanes.ts";
import { openRelayMetrics } from "./relay/metrics.ts";
import type { RelayNetwork } from "./relay/network.ts";
import { startNetworkLoop } from "./relay/network-loop.ts";
import { oneAtATime } from "./relay/one-at-a-time.ts";
import { openTasks } from "./tasks.ts";
import { checkTokens } from "./token-check.ts";

const RPC_TIMEOUT_MS = 5_000;
const POLL_INTERVAL_MS = 1_000;
const SHUTDOWN_ABORT_MS = 8_000;
/** For what only gives locks back: a dead database must not hold up the end, and its locks are gone with it. */
const CLOSE_TIMEOUT_MS = 1_500;
/** Connections beside the tasks': the keeper's lock, liveness and listening each hold one. */
const EXTRA_CONNECTIONS = 6;
const NOTES_CONNECTIONS = 2;

const config = readEnvOrExit(() => readWorkerConfig());
const log = openLog("worker", config.logLevel);
const stop = handleStop(log);
const metrics = openMetrics("worker", config.metricsPort);
stop.onStop("metrics", () => metrics.close());
const sql = openDatabase(config.databaseUrl, {
  name: "worker",
  maxConnections: config.concurrency + EXTRA_CONNECTIONS,
});
stop.onStop("database", () => sql.end({ timeout: 2 }));
const notes = openDatabase(config.databaseUrl, {
  name: "worker notes",
  maxConnections: NOTES_CONNECTIONS,
  asynchronousCommit: true,
  genericPlans: true,
});
stop.onStop("notes", () => notes.end({ timeout: 2 }));

const chains = new Map(
  config.chains.map(({ id, rpcUrls }) => [
    id,
    openChain({ network: id, urls: rpcUrls, timeoutMs: RPC_TIMEOUT_MS }),
  ]),
);
stop.onStop("chains", () => chains.forEach((chain) => void chain.close()));
await checkTokens([...chains.values()], log);

const deps = { sql, notes, log, chains, config, metrics };
const relayMetrics = openRelayMetrics(metrics.registry, sql);
const networks = new Map(
  [...chains].map(([id, chain]): [typeof id, RelayNetwork] => {
    const keys = config.relayerKeys.get(id) ?? [];
    const confirmations = config.chains.find((settings) => settings.id === id)?.confirmations ?? 1;
    const lanes = openLanes(sql, chain, keys, {
      maxFeeWei: config.relayMaxFeeWei,
      dailyFeeMaxWei: config.relayDailyFeeMaxWei,
    });
    return [id, { deps, chain, lanes, confirmations, metrics: relayMetrics }];
  }),
);
const drains = new Map([...networks].map(([id, network]) => [id, oneAtATime(() => drainPayments(network))]));
for (const [id, network] of networks) {
  const drain = drains.get(id) ?? (async () => {});
  stop.onStop(`relaying on ${id}`, await startNetworkLoop(sql, network, drain), CLOSE_TIMEOUT_MS);
}

const mailer = openMailer(config);
stop.onStop("mailer", () => mailer.close());
const runner = await startQueue(config, log);
stop.onStop("queue", () => runner.stop());
runner.promise.then(
  () =>
    stop.signal.aborted || stop.fail("the queue ended", new Error("the queue's runner stopped by itself")),
  (error: unknown) => stop.fail("the queue failed", error),
);
log.info({ networks: [...chains.keys()], concurrency: config.concurrency }, "worker is ready");

/** Completions are written at once: a delayed one would be lost at SIGTERM, and its job run again. */
async function startQueue(settings: WorkerConfig, logger: Log) {
  const events: WorkerEvents = new EventEmitter();
  events.on("pool:create", ({ workerPool }) => {
    stop.onStop("liveness", watchLiveness(sql, logger, workerPool.id), CLOSE_TIMEOUT_MS);
  });
  const pool = new Pool({ connectionString: settings.databaseUrl, max: settings.concurrency + 2 });
  pool.on("error", (error) => logger.warn({ err: error }, "queue connection lost"));
  pool.on("connect", (client) => client.on("error", () => undefined));
  stop.onStop("queue connections", () => pool.end());
  return run({
    pgPool: pool,
    concurrency: settings.concurrency,
    pollInterval: POLL_INTERVAL_MS,
    noHandleSignals: true,
    events,
    logger: queueLogger(logger),
    taskList: openTasks({ ...deps, mailer }, networks, drains),
    parsedCronItems: parseCronItems([
      { task: "housekeeping", match: "* * * * *", identifier: "housekeeping" },
    ]),
    preset: {
      worker: {
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
        gracefulShutdownAbortTimeout: SHUTDOWN_ABORT_MS,
      },
    },
  });
}

/** The queue's own warnings and errors in our logs; its line a job is ours to write. */
function queueLogger(logger: Log): Logger {
  return new Logger(() => (level, message) => {
    if (level === "error") logger.error({ queue: true }, message);
    else if (level === "warning") logger.warn({ queue: true }, message);
  });
}
