/** The worker's environment, read once. It is the only process that sees the relayer keys. */
import { privateKeyToAccount } from "viem/accounts";
import { z } from "zod";
import type { Hex, NetworkId } from "../core/domain/networks.ts";
import { type ChainSettings, chainShape, enabledChains } from "../core/runtime/chain-env.ts";
import {
  commaList,
  EnvError,
  flag,
  processShape,
  readEnv,
  secret,
  wholeNumber,
} from "../core/runtime/env.ts";
import type { MetricsPlace } from "../core/runtime/metrics.ts";

const privateKeys = commaList
  .pipe(z.array(z.string().regex(/^0x[0-9a-fA-F]{64}$/, "must be 0x and 64 hex digits")).min(1))
  .optional();

const shape = {
  ...processShape,
  ...chainShape,
  RELAYER_PRIVATE_KEYS: privateKeys,
  RELAYER_PRIVATE_KEYS_BASE: privateKeys,
  RELAYER_PRIVATE_KEYS_BASE_SEPOLIA: privateKeys,
  RELAY_BATCH_MAX: wholeNumber(1, 100).default(50),
  RELAY_MAX_FEE_GWEI: wholeNumber(1, 10_000).default(2),
  RELAY_DAILY_FEE_MAX_WEI: z
    .string()
    .regex(/^\d{1,30}$/, "must be whole wei")
    .optional(),
  WALLET_DEPLOYMENT: z.enum(["eager", "lazy"]).optional(),
  WORKER_CONCURRENCY: wholeNumber(1, 50).default(8),
  OTP_PEPPER: secret,
  WEBHOOK_PRIVATE_TARGETS: flag.default(false),
  BASE_URL: z.url().default("http://localhost:3000"),
  SMTP_URL: z.string({ error: "is required: the mail relay, for example smtp://127.0.0.1:2525" }).min(1),
  MAIL_FROM: z.string().min(3).default("Payments <no-reply@localhost>"),
} as const;

export type RelayerKey = { address: Hex; privateKey: Hex };

export type WorkerConfig = {
  nodeEnv: "development" | "test" | "production";
  logLevel: string;
  databaseUrl: string;
  metrics: MetricsPlace;
  chains: ChainSettings[];
  relayerKeys: ReadonlyMap<NetworkId, readonly RelayerKey[]>;
  relayBatchMax: number;
  relayMaxFeeWei: bigint;
  /** What a network's relayers may pay for gas in 24 hours; undefined: as much as they hold. */
  relayDailyFeeMaxWei: bigint | undefined;
  walletDeployment: "eager" | "lazy" | undefined;
  concurrency: number;
  otpPepper: string;
  /** Webhooks may go to http URLs and private addresses: for receivers in one's own network. */
  webhookPrivateTargets: boolean;
  baseUrl: string;
  smtpUrl: string;
  mailFrom: string;
};

/** Throws EnvError with every fault. */
export function readWorkerConfig(source?: Record<string, string | undefined>): WorkerConfig {
  const env = readEnv(shape, source);
  const chains = enabledChains(env);
  const relayerKeys = new Map<NetworkId, RelayerKey[]>();
  for (const { id } of chains) {
    const own = id === "base" ? env.RELAYER_PRIVATE_KEYS_BASE : env.RELAYER_PRIVATE_KEYS_BASE_SEPOLIA;
    const keys = own ?? env.RELAYER_PRIVATE_KEYS;
    if (!keys) throw new EnvError([`RELAYER_PRIVATE_KEYS: is required: the keys that pay gas on ${id}`]);
    relayerKeys.set(id, keys.map(toRelayerKey));
  }
  return {
    nodeEnv: env.NODE_ENV,
    logLevel: env.LOG_LEVEL,
    databaseUrl: env.DATABASE_URL,
    metrics: { port: env.METRICS_PORT, host: env.METRICS_HOST },
    chains,
    relayerKeys,
    relayBatchMax: env.RELAY_BATCH_MAX,
    relayMaxFeeWei: BigInt(env.RELAY_MAX_FEE_GWEI) * 1_000_000_000n,
    relayDailyFeeMaxWei:
      env.RELAY_DAILY_FEE_MAX_WEI === undefined ? undefined : BigInt(env.RELAY_DAILY_FEE_MAX_WEI),
    walletDeployment: env.WALLET_DEPLOYMENT,
    concurrency: env.WORKER_CONCURRENCY,
    otpPepper: env.OTP_PEPPER,
    webhookPrivateTargets: env.WEBHOOK_PRIVATE_TARGETS,
    baseUrl: env.BASE_URL,
    smtpUrl: env.SMTP_URL,
    mailFrom: env.MAIL_FROM,
  };
}

function toRelayerKey(text: string): RelayerKey {
  // the schema matched 0x and 64 hex digits
  const privateKey = text.toLowerCase() as Hex;
  const address = privateKeyToAccount(privateKey).address.toLowerCase() as Hex;
  return { address, privateKey };
}
