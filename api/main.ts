/** The API process: reads the environment, opens its resources, listens, and closes them in reverse order on SIGTERM. */

import type { NetworkId } from "../core/domain/networks.ts";
import { type Chain, openChain } from "../core/rpc/chain-client.ts";
import { wrongChainLog } from "../core/runtime/chain-env.ts";
import { exitMisconfigured, readEnvOrExit } from "../core/runtime/env.ts";
import { openFailureLog } from "../core/runtime/failure-log.ts";
import { listenAt } from "../core/runtime/listen.ts";
import { openLog } from "../core/runtime/log.ts";
import { inspectMachine } from "../core/runtime/machine-limits.ts";
import { openMetrics, openReadMetrics } from "../core/runtime/metrics.ts";
import { handleStop } from "../core/runtime/shutdown.ts";
import { statusPage } from "../core/status-page/serve-status-page.ts";
import { openTracing } from "../core/tracing/open-tracing.ts";
import { listForeignRpIds } from "../db/auth/passkeys.ts";
import { reportProcess } from "../db/health/process-heartbeats.ts";
import { readServiceStatus } from "../db/health/service-status.ts";
import { openDatabase } from "../db/postgres/client.ts";
import { inspectDatabase } from "../db/postgres/inspect-database.ts";
import { openOutcomes } from "../db/postgres/notifications.ts";
import { openReader } from "../db/postgres/replica.ts";
import { retryDeadlocks } from "../db/postgres/retry-deadlocks.ts";
import { openDatabaseWait } from "../db/postgres/retry-while-unavailable.ts";
import packageJson from "../package.json" with { type: "json" };
import { createApp } from "./app.ts";
import { readApiConfig } from "./config.ts";
import { type Assets, readAssets } from "./http/assets.ts";
import { drainServer, openDrain } from "./http/drain.ts";
import { raiseServerHeaderLimit } from "./http/header-limit.ts";
import { requireWalletFiles } from "./pages/further-wallets.ts";

const RPC_TIMEOUT_MS = 5_000;
/** How long a list waits for a replica that lags, before it is read from the primary. */
const REPLICA_WAIT_MS = 50;
/** Timeout of lists. */
const REPLICA_SILENCE_S = 5;
/** Maximum duration of a request besides its wait for an outcome. */
const ANSWER_MARGIN_MS = 5_000;
const REPORT_TIMEOUT_MS = 1_000;

const config = readEnvOrExit(() => readApiConfig());
const assets = readAssetsOrExit();
const log = openLog("api", config.logLevel);
for (const risk of config.risks) log.warn({ risk }, "insecure setting");
for (const setting of config.ignored) log.warn({ setting }, "setting without effect");
for (const risk of inspectMachine()) log.warn({ risk }, "machine at its limit");
const stop = handleStop(log);

const metrics = openMetrics("api", config.metrics);
stop.onStop("metrics", () => metrics.close());

const tracing = await openTracing("api", config.traces);
stop.onStop("traces", () => tracing.close());

const { pool, planned } = config.connections;
const sql = retryDeadlocks(openDatabase(config.databaseUrl, { name: "api", maxConnections: pool }));
stop.onStop("database", () => sql.end({ timeout: 5 }));
const plannedSql = retryDeadlocks(
  openDatabase(config.databaseUrl, { name: "api payments", maxConnections: planned, genericPlans: true }),
);
stop.onStop("payments' database", () => plannedSql.end({ timeout: 5 }));

const replica = config.databaseReadUrl
  ? openDatabase(config.databaseReadUrl, {
      name: "api reads",
      maxConnections: pool + planned,
      silenceTimeoutS: REPLICA_SILENCE_S,
    })
  : undefined;
stop.onStop("replica", () => replica?.end({ timeout: 5 }));
const onRead = openReadMetrics(metrics.registry);
const logFailure = openFailureLog(log);
const onForeign = (message: string) => logFailure("error", { err: undefined }, message);
const reader = openReader(sql, { replica, waitMs: REPLICA_WAIT_MS, onRead, onForeign });

const waitForDatabase = openDatabaseWait(config.databaseUrl, { log, onGivenUp: stop.fail });
const database = await waitForDatabase(() => inspectDatabase(sql, config.databaseUrl));
if (database.refusal) exitMisconfigured(database.refusal);
for (const risk of database.risks) log.warn({ risk }, "database at risk");
const networkIds = config.chains.map(({ id }) => id);
metrics.addPage(
  "/ops",
  statusPage(`api ${packageJson.version}`, () => readServiceStatus(sql, networkIds)),
);
const stopReporting = reportProcess(sql, { kind: "api", version: packageJson.version });
stop.onStop("report", stopReporting, REPORT_TIMEOUT_MS);
if (config.nodeEnv === "production") {
  const foreign = await waitForDatabase(() => listForeignRpIds(sql, config.passkey.rpId));
  if (foreign.length > 0) refuseForeignRpIds(config.passkey.rpId, foreign);
}

const outcomes = await waitForDatabase(() => openOutcomes(sql));
stop.onStop("outcomes", () => outcomes.close());

const chains = new Map<NetworkId, Chain>();
for (const { id, rpcUrls } of config.chains) {
  const { walletFactories } = config;
  const onWrongChain = wrongChainLog(log, id);
  const chain = openChain({
    ...{ network: id, urls: rpcUrls, timeoutMs: RPC_TIMEOUT_MS },
    ...{ walletFactories, onWrongChain },
  });
  // a node of another chain is reported at start, not with the first request that needs it
  void chain.refreshHeads();
  chains.set(id, chain);
  stop.onStop(`chain ${id}`, () => chain.close());
}

const drain = openDrain();
const app = createApp({ sql, plannedSql, reader, outcomes, config, log, chains, metrics, assets, drain });
raiseServerHeaderLimit();
const { host, port } = config;
listenAt({ names: "HOST, PORT", host, port }, () => app.listen({ hostname: host, port, reusePort: false }));
const { drainS, payWaitMs, exportWaitMs } = config;
stop.onStop(
  "http",
  // only an orchestrator's signal leaves time for the load balancer; a failed process accepts no new requests
  () =>
    drainServer(drain, { server: app.server, drainS: stop.signal.reason === "SIGTERM" ? drainS : 0, log }),
  drainS * 1000 + Math.max(payWaitMs, exportWaitMs) + ANSWER_MARGIN_MS,
);
log.info({ host, port: app.server?.port, baseUrl: config.baseUrl }, "listening");

/** With another RP id their owners could neither sign in nor send, and new passkeys would be bound to the wrong one permanently. */
function refuseForeignRpIds(rpId: string, foreign: readonly { rpId: string; count: number }[]): never {
  const found = foreign.map((one) => `${one.count} of "${one.rpId}"`).join(", ");
  exitMisconfigured(
    `RP_ID is "${rpId}", but the database holds passkeys of other relying parties: ${found}. Set RP_ID to theirs; a passkey cannot be moved to another relying party.`,
  );
}

function readAssetsOrExit(): Assets {
  try {
    const assets = readAssets();
    requireWalletFiles(assets, config);
    return assets;
  } catch (error) {
    return exitMisconfigured(error instanceof Error ? error.message : String(error));
  }
}
