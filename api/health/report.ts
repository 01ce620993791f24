/**
 * Builds the health report. The service is unhealthy, and not ready, when a critical component is: the database, the chain of an enabled
 * network or its contracts, or when no relayer key is configured. All components are checked concurrently, each for at most two seconds,
 * and the report is cached for one.
 */
import type { Chain } from "../../core/rpc/chain-client.ts";
import { type FailureLog, openFailureLog } from "../../core/runtime/failure-log.ts";
import { readDiskSpace } from "../../core/runtime/machine-limits.ts";
import { isOnThisMachine } from "../../core/runtime/public-url.ts";
import packageJson from "../../package.json" with { type: "json" };
import type { ApiDeps } from "../http/deps.ts";
import {
  type ComponentName,
  checkContracts,
  checkDatabase,
  checkIndexer,
  checkNetwork,
  checkRelayer,
  type Finding,
  judgeDisk,
} from "./checks.ts";

export type HealthReport = {
  status: "healthy" | "unhealthy";
  timestamp: string;
  service: string;
  version: string;
  checks: Record<string, Finding>;
};

type Judged = { name: ComponentName; finding: Finding; isCritical: boolean };

const CHECK_TIMEOUT_MS = 2_000;
const REMEMBERED_MS = 1_000;

/** Concurrent callers share one round of checks. */
export function openHealth(deps: ApiDeps): () => Promise<HealthReport> {
  const logFailure = openFailureLog(deps.log);
  let last: { startedMs: number; report: Promise<HealthReport> } | undefined;
  return () => {
    // a monotonic clock: a wall clock that is set back would keep the report for as long
    const nowMs = performance.now();
    if (!last || nowMs - last.startedMs > REMEMBERED_MS)
      last = { startedMs: nowMs, report: examine(deps, logFailure) };
    return last.report;
  };
}

async function examine(deps: ApiDeps, logFailure: FailureLog): Promise<HealthReport> {
  const judged = await Promise.all(componentsOf(deps, logFailure));
  const isHealthy = judged.every(({ finding, isCritical }) => !isCritical || finding.status === "healthy");
  return {
    status: isHealthy ? "healthy" : "unhealthy",
    timestamp: new Date().toISOString(),
    service: packageJson.name,
    version: packageJson.version,
    checks: Object.fromEntries(judged.map(({ name, finding }) => [name, finding])),
  };
}

/** Critical: the database, the chain of each enabled network and its contracts, a relayer key. Other components are reported but do not affect the status. */
function componentsOf({ sql, chains, config }: ApiDeps, logFailure: FailureLog): Promise<Judged>[] {
  const all = [...chains.values()];
  // a local chain may use a stand-in for the wallet contracts
  const isPublic = ({ network }: Chain) =>
    config.nodeEnv === "production" &&
    config.chains.some(({ id, rpcUrls }) => id === network.id && !rpcUrls.every(isOnThisMachine));
  const relayer = bounded(
    "x402-relayer",
    () => checkRelayer(sql, all, config.relayerBalanceFloorWei),
    logFailure,
  );
  return [
    judge("database", true, () => checkDatabase(sql), logFailure),
    judge("disk", false, async () => judgeDisk(readDiskSpace(process.cwd())), logFailure),
    ...all.flatMap((chain) => [
      judge(`network-${chain.network.id}`, true, () => checkNetwork(chain), logFailure),
      judge(
        `smart-contract-${chain.network.id}`,
        true,
        () => checkContracts(chain, { isPublic: isPublic(chain) }),
        logFailure,
      ),
    ]),
    relayer.then(
      ({ isMissing = false, ...finding }): Judged => ({
        name: "x402-relayer",
        finding,
        isCritical: isMissing,
      }),
    ),
    ...all.map((chain) =>
      judge(`indexer-${chain.network.id}`, false, () => checkIndexer(sql, chain), logFailure),
    ),
  ];
}

async function judge(
  name: ComponentName,
  isCritical: boolean,
  check: () => Promise<Finding>,
  logFailure: FailureLog,
): Promise<Judged> {
  return { name, finding: await bounded(name, check, logFailure), isCritical };
}

/** Errors are logged in full; the public response only says that there was one. */
async function bounded<Found extends Finding>(
  name: ComponentName,
  check: () => Promise<Found>,
  logFailure: FailureLog,
): Promise<Found | (Finding & { isMissing?: boolean })> {
  const timeout = Promise.withResolvers<Finding>();
  const timer = setTimeout(
    () => timeout.resolve({ status: "unhealthy", error: `no answer within ${CHECK_TIMEOUT_MS} ms` }),
    CHECK_TIMEOUT_MS,
  );
  try {
    return await Promise.race([check(), timeout.promise]);
  } catch (error) {
    logFailure("warn", { err: error, component: name }, "health check failed");
    return { status: "unhealthy", error: "could not be reached" };
  } finally {
    clearTimeout(timer);
  }
}
