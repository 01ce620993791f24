/** The indexer's environment, read once at the door. */
import { type ChainSettings, chainFaults, chainShape, enabledChains } from "../core/runtime/chain-env.ts";
import { processShape, readEnv } from "../core/runtime/env.ts";
import type { MetricsPlace } from "../core/runtime/metrics.ts";
import { relayLimitsShape } from "../core/runtime/relay-limits-env.ts";

const shape = {
  ...processShape,
  ...chainShape,
  RELAY_MIN_AMOUNT: relayLimitsShape.RELAY_MIN_AMOUNT,
} as const;

export type IndexerConfig = {
  logLevel: string;
  databaseUrl: string;
  metrics: MetricsPlace;
  chains: ChainSettings[];
  /** Micro-USDC: what is not worth relaying is not worth an exception. */
  misfitMinUnits: bigint;
};

/** Throws EnvError with every fault. */
export function readIndexerConfig(source?: Record<string, string | undefined>): IndexerConfig {
  const env = readEnv(shape, source, chainFaults);
  return {
    logLevel: env.LOG_LEVEL,
    databaseUrl: env.DATABASE_URL,
    metrics: { port: env.METRICS_PORT, host: env.METRICS_HOST },
    chains: enabledChains(env),
    misfitMinUnits: env.RELAY_MIN_AMOUNT,
  };
}
