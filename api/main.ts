/** The API process: reads the environment, opens what it needs, listens, and closes it all in reverse on SIGTERM. */
import { type Chain, openChain } from "../core/chain/clients.ts";
import type { NetworkId } from "../core/domain/networks.ts";
import { readEnvOrExit } from "../core/runtime/env.ts";
import { openLog } from "../core/runtime/log.ts";
import { openMetrics } from "../core/runtime/metrics.ts";
import { handleStop } from "../core/runtime/stop.ts";
import { openDatabase } from "../db/client.ts";
import { openOutcomes } from "../db/outcome.ts";
import { withPatience } from "../db/patience.ts";
import { createApp } from "./app.ts";
import { readApiConfig } from "./config.ts";
import { raiseServerHeaderLimit } from "./http/header-limit.ts";

const RPC_TIMEOUT_MS = 5_000;

const config = readEnvOrExit(() => readApiConfig());
const log = openLog("api", config.logLevel);
const stop = handleStop(log);

const metrics = openMetrics("api", config.metrics);
stop.onStop("metrics", () => metrics.close());

const sql = openDatabase(config.databaseUrl, { name: "api", maxConnections: config.databaseMaxConnections });
stop.onStop("database", () => sql.end({ timeout: 5 }));

const outcomes = await withPatience(
  () => openOutcomes(sql),
  (error) => log.warn({ err: error }, "the database is away; waiting for it"),
);
stop.onStop("outcomes", () => outcomes.close());

const chains = new Map<NetworkId, Chain>();
for (const { id, rpcUrls } of config.chains) {
  const { walletFactories } = config;
  const chain = openChain({ network: id, urls: rpcUrls, timeoutMs: RPC_TIMEOUT_MS, walletFactories });
  chains.set(id, chain);
  stop.onStop(`chain ${id}`, () => chain.close());
}

const app = createApp({ sql, outcomes, config, log, chains, metrics });
raiseServerHeaderLimit();
app.listen({ hostname: config.host, port: config.port, reusePort: false });
stop.onStop("http", () => app.server?.stop());
log.info({ host: config.host, port: app.server?.port, baseUrl: config.baseUrl }, "listening");
