/**
 * `bun run rebuild`: recreates all chain-derived rows from the chain and reports differences. Indexers may keep running. Exit code 0:
 * identical; 1: something differed; 2: a network could not be rebuilt and is unchanged.
 */
import { openChain } from "../core/rpc/chain-client.ts";
import { RpcTransportError } from "../core/rpc/errors.ts";
import type { ChainSettings } from "../core/runtime/chain-env.ts";
import { readArgumentsOrExit } from "../core/runtime/command-line.ts";
import { exitMisconfigured, readEnvOrExit } from "../core/runtime/env.ts";
import { openLog } from "../core/runtime/log.ts";
import { openMetrics } from "../core/runtime/metrics.ts";
import { beginEpoch } from "../db/ledger/leader-epoch.ts";
import { openDatabase } from "../db/postgres/client.ts";
import { inspectDatabase } from "../db/postgres/inspect-database.ts";
import { describeDatabaseFailure } from "../db/postgres/retry-while-unavailable.ts";
import { rebuildNetwork } from "./audit/rebuild-network.ts";
import { readIndexerConfig } from "./config.ts";
import { beginLeaderTerm } from "./follow/begin-leader-term.ts";
import { waitForLeadership } from "./leadership.ts";
import { openIndexerMetrics } from "./metrics.ts";

const RPC_TIMEOUT_MS = 20_000;

readArgumentsOrExit("bun run rebuild", {});
const config = readEnvOrExit(() => readIndexerConfig());
const log = openLog("rebuild", config.logLevel);
const sql = openDatabase(config.databaseUrl, { name: "rebuild", silenceTimeoutS: 0 });
const metrics = openIndexerMetrics(openMetrics("rebuild", { port: undefined, host: "127.0.0.1" }).registry);

const { refusal } = await inspectDatabase(sql, config.databaseUrl).catch((error: unknown) =>
  endUnchanged(`not rebuilt: ${explain(error)}`),
);
if (refusal) exitMisconfigured(`not rebuilt: ${refusal}`);

let differing = 0;
for (const settings of config.chains)
  try {
    differing += await rebuild(settings);
  } catch (error) {
    endUnchanged(`${settings.id}: not rebuilt: ${explain(error)}`);
  }
await sql.end({ timeout: 5 });
process.exit(differing === 0 ? 0 : 1);

function endUnchanged(message: string): never {
  console.error(message);
  process.exit(2);
}

/** A node's failure can look like one of the database, whose errors do not say where they come from. */
function explain(error: unknown): string {
  return error instanceof RpcTransportError
    ? error.message
    : describeDatabaseFailure(config.databaseUrl, error);
}

async function rebuild({ id, rpcUrls, confirmations }: ChainSettings): Promise<number> {
  const chain = openChain({ network: id, urls: rpcUrls, timeoutMs: RPC_TIMEOUT_MS });
  const { signal } = new AbortController();
  // a leading indexer notices at its next block that its term is over, and releases the lock
  await beginEpoch(sql, id);
  const leadership = await waitForLeadership(config.databaseUrl, id, {
    stop: signal,
    log,
    name: "rebuild-lead",
  });
  try {
    const term = await beginLeaderTerm({
      network: id,
      chain,
      sql,
      log,
      metrics,
      confirmations,
      signal,
      mismatchMinUnits: config.mismatchMinUnits,
    });
    const report = await rebuildNetwork(term);
    console.log(
      `${id}: ${report.transfers} transfers of blocks ${report.fromBlock} to ${report.toBlock}; ${
        report.differences.length === 0
          ? "identical to the previous state"
          : "different from the previous state:"
      }`,
    );
    for (const { table, rows, examples } of report.differences)
      console.log(`  ${table}: ${rows} row(s), for example ${examples.join(", ")}`);
    return report.differences.length;
  } finally {
    await leadership?.release();
    chain.close();
  }
}
