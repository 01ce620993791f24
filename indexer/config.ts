/** The indexer's environment, read once at startup. */
import type { z } from "zod";
import { chainFaults, chainShape, enabledChains, enabledNetworks } from "../core/runtime/chain-env.ts";
import { processShape, readEnv, tracesPlace, wholeNumber } from "../core/runtime/env.ts";
import { relayLimitsShape } from "../core/runtime/relay-limits-env.ts";

/** Three in the pool, and one that holds the leader's lock. */
const CONNECTIONS_A_NETWORK = 4;

const shape = {
  ...processShape,
  ...chainShape,
  RELAY_MIN_AMOUNT: relayLimitsShape.RELAY_MIN_AMOUNT,
  ACCOUNT_LOGS_EVERY_S: wholeNumber(1, 3_600).default(90),
  INDEXER_DATABASE_MAX_CONNECTIONS: wholeNumber(CONNECTIONS_A_NETWORK, 100).optional(),
} as const;

/** Names of all variables that the indexer reads. */
export const INDEXER_SETTINGS = Object.keys(shape);

/** Throws EnvError with every error. */
export function readIndexerConfig(source?: Record<string, string | undefined>) {
  const env = readEnv(shape, source, findFaults);
  const networks = enabledNetworks(env).length;
  const maxConnections = env.INDEXER_DATABASE_MAX_CONNECTIONS ?? networks * CONNECTIONS_A_NETWORK;
  return {
    logLevel: env.LOG_LEVEL,
    databaseUrl: env.DATABASE_URL,
    metrics: { port: env.METRICS_PORT, host: env.METRICS_HOST },
    traces: tracesPlace(env),
    /** Pool size; each network uses one more connection for its leader's lock. */
    poolConnections: maxConnections - networks,
    chains: enabledChains(env),
    /** Micro-USDC: amounts too small to be relayed do not set exceptions either. */
    mismatchMinUnits: env.RELAY_MIN_AMOUNT,
    /** Interval of searches for logs that wallets write themselves; the provider bills each. */
    accountLogsEveryMs: env.ACCOUNT_LOGS_EVERY_S * 1_000,
  };
}

export type IndexerConfig = ReturnType<typeof readIndexerConfig>;

type IndexerEnv = z.infer<z.ZodObject<typeof shape>>;

function findFaults(env: Partial<IndexerEnv>, broken: ReadonlySet<string>): string[] {
  const networks = enabledNetworks(env).length;
  const [min, max] = [networks * CONNECTIONS_A_NETWORK, env.INDEXER_DATABASE_MAX_CONNECTIONS];
  const faults = chainFaults(env, broken);
  if (max === undefined || max >= min) return faults;
  return [...faults, `INDEXER_DATABASE_MAX_CONNECTIONS: must be at least ${min} with ${networks} network(s)`];
}
