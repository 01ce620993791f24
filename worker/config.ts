/** The worker's environment, read once. Only this process sees the relayer keys (relayer-keys-env.ts). */
import { z } from "zod";
import { DEFAULT_RATE_SOURCE, OWN_RATES, RATE_SOURCE } from "../core/domain/exchange-rate.ts";
import { NETWORK_IDS, NETWORKS, type NetworkId } from "../core/domain/networks.ts";
import { EVENTS_KEPT_DAYS_DEFAULT } from "../core/domain/retention.ts";
import { chainFaults, chainShape, enabledChains } from "../core/runtime/chain-env.ts";
import {
  commaList,
  flag,
  processShape,
  readEnv,
  secretList,
  standbyUrl,
  tracesPlace,
  wholeNumber,
} from "../core/runtime/env.ts";
import { isMailSender, MAIL_SENDER } from "../core/runtime/mail-sender.ts";
import {
  baseUrlFaults,
  originUrl,
  riskySettings,
  sealKeysOf,
  secretFaults,
} from "../core/runtime/production-env.ts";
import {
  dailyFeeMaxWei,
  merchantGasPerDay,
  relayLimitsShape,
  sendGasTotalPerDay,
  sendLimitsShape,
  workerLimitsShape,
} from "../core/runtime/relay-limits-env.ts";
import { openSignerFaults, relayerKeysFaults, relayerKeysOf, relayerKeysShape } from "./relayer-keys-env.ts";

export type RateSourceSetting = { name: string; url: string };

/** "ecb=https://…, other=https://…"; a URL without a name is the default source. */
const rateSources = commaList
  .refine((items) => items.length <= 10, "must be at most 10 sources")
  .transform((items) =>
    items.map((item): RateSourceSetting => {
      if (/^https?:/i.test(item)) return { name: DEFAULT_RATE_SOURCE, url: item };
      const at = item.indexOf("=");
      return { name: item.slice(0, Math.max(0, at)), url: item.slice(at + 1) };
    }),
  )
  .refine(
    (sources) =>
      sources.every(({ name, url }) => RATE_SOURCE.test(name) && URL.canParse(url) && /^https?:/i.test(url)),
    "must be a URL or name=URL, comma-separated, such as ecb=https://www.example.com/rates.xml",
  )
  .refine(
    (sources) => sources.every(({ name }) => name !== OWN_RATES && name !== "par"),
    "must not use the source names own or par",
  )
  .refine(
    (sources) => new Set(sources.map(({ name }) => name)).size === sources.length,
    "must not name a source twice",
  );

const DEFAULT_CONCURRENCY = 8;
const MAIL_RELAY = "it names the mail relay, for example smtp://127.0.0.1:2525";
/** Connections in addition to one per task: liveness holds one, two while the job queue restarts; an export holds two and needs a third. */
const EXTRA_CONNECTIONS = 4;
/** Connections of the sender: the monitor's lock holds one per network. */
const PLANNED_CONNECTIONS = 6;
const ASYNC_COMMIT_CONNECTIONS = 2;
/** Connections of the job queue: LISTEN, and the statements that take and complete jobs, each within a millisecond. */
const QUEUE_CONNECTIONS = 4;

/** The mail package accepts text without a scheme and connects elsewhere. */
function isMailUrl(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && /^smtps?:$/.test(url.protocol) && url.hostname !== "";
}

const shape = {
  ...processShape,
  ...chainShape,
  RELAY_GAS_PER_MERCHANT_PER_DAY: relayLimitsShape.RELAY_GAS_PER_MERCHANT_PER_DAY,
  ...sendLimitsShape,
  ...relayerKeysShape,
  ...workerLimitsShape,
  DATABASE_READ_URL: standbyUrl.optional(),
  WORKER_CONCURRENCY: wholeNumber(1, 50).default(DEFAULT_CONCURRENCY),
  WORKER_DATABASE_MAX_CONNECTIONS: wholeNumber(17, 400).optional(),
  EVENTS_KEPT_DAYS: wholeNumber(7, 36_500).default(EVENTS_KEPT_DAYS_DEFAULT),
  OTP_PEPPER: secretList("it hashes and encrypts e-mail codes; use the same value as for the API"),
  WEBHOOK_SEAL_KEYS: secretList("it encrypts webhook secrets").optional(),
  WEBHOOK_PRIVATE_TARGETS: flag.default(false),
  RATE_SOURCE: rateSources.optional(),
  /** The earlier name of RATE_SOURCE. */
  EXCHANGE_RATE_SOURCES: rateSources.optional(),
  BASE_URL: originUrl.optional(),
  SMTP_URL: z
    .string({ error: MAIL_RELAY })
    .refine(
      isMailUrl,
      "must be a URL, for example smtp://127.0.0.1:2525 or smtps://user:password@mail.example.com",
    ),
  MAIL_FROM: z.string().refine(isMailSender, MAIL_SENDER).default("Payments <no-reply@localhost>"),
} as const;

/** Names of all variables that the worker reads. */
export const WORKER_SETTINGS = Object.keys(shape);

/** Throws EnvError with every error. */
export function readWorkerConfig(source?: Record<string, string | undefined>) {
  const env = readEnv(shape, source, findFaults);
  const chains = enabledChains(env);
  const relayerKeys = new Map(chains.map(({ id }) => [id, relayerKeysOf(env, id)]));
  return {
    nodeEnv: env.NODE_ENV,
    logLevel: env.LOG_LEVEL,
    databaseUrl: env.DATABASE_URL,
    /** A replica, for exports. */
    databaseReadUrl: env.DATABASE_READ_URL,
    metrics: { port: env.METRICS_PORT, host: env.METRICS_HOST },
    traces: tracesPlace(env),
    chains,
    relayerKeys,
    relayBatchMax: env.RELAY_BATCH_MAX,
    relayMaxFeeWei: BigInt(env.RELAY_MAX_FEE_GWEI) * 1_000_000_000n,
    relayDailyFeeMaxWei: dailyFeeMaxWei(env),
    /** No link's payment is signed while the node's newest block is older than this by our clock; undefined: no limit. */
    relayHeadMaxAgeS: headMaxAgeS(env),
    /** Gas that relaying for one merchant may use per network and UTC day; undefined: no limit. */
    relayGasPerMerchantPerDay: merchantGasPerDay(env),
    /** Gas that reverted transactions may burn per UTC day and implementation of contract payers. */
    relayRevertedGasPerDay: BigInt(env.RELAY_REVERTED_GAS_PER_DAY),
    /** Gas that one user's sends may use per UTC day; the API enforces it. */
    sendGasPerDay: BigInt(env.SEND_GAS_PER_DAY),
    /** Gas that all sends may use per network and UTC day; undefined: no limit. */
    sendGasTotalPerDay: sendGasTotalPerDay(env),
    concurrency: env.WORKER_CONCURRENCY,
    /** The process's database connections, by pool; LISTEN takes one more. */
    connections: shareConnections(env.WORKER_CONCURRENCY, env.WORKER_DATABASE_MAX_CONNECTIONS),
    /** Events older than this are deleted; at least 7 days, because webhooks are retried for days. */
    eventsKeptDays: env.EVENTS_KEPT_DAYS,
    otpPeppers: env.OTP_PEPPER,
    webhookSealKeys: sealKeysOf(env.WEBHOOK_SEAL_KEYS, env.OTP_PEPPER),
    /** Webhooks may target http URLs and private addresses, for receivers in the operator's own network. */
    webhookPrivateTargets: env.WEBHOOK_PRIVATE_TARGETS,
    rateSources: env.RATE_SOURCE ?? env.EXCHANGE_RATE_SOURCES ?? [],
    /** Logged at every startup. */
    risks: riskySettings(env),
    baseUrl: env.BASE_URL ?? "http://localhost:3000",
    smtpUrl: env.SMTP_URL,
    mailFrom: env.MAIL_FROM,
  };
}

export type WorkerConfig = ReturnType<typeof readWorkerConfig>;

/** The pool must hold all connections that tasks and locks use concurrently, or they would deadlock. */
function shareConnections(concurrency: number, max: number | undefined) {
  const [planned, asyncCommit] = [PLANNED_CONNECTIONS, ASYNC_COMMIT_CONNECTIONS];
  const others = planned + asyncCommit + QUEUE_CONNECTIONS;
  const pool = max === undefined ? concurrency + EXTRA_CONNECTIONS : max - others;
  return { pool, planned, asyncCommit, queue: QUEUE_CONNECTIONS };
}

function connectionFaults(env: Partial<WorkerEnv>): string[] {
  const { WORKER_DATABASE_MAX_CONNECTIONS: max, WORKER_CONCURRENCY: concurrency = DEFAULT_CONCURRENCY } = env;
  const ours = EXTRA_CONNECTIONS + PLANNED_CONNECTIONS + ASYNC_COMMIT_CONNECTIONS + QUEUE_CONNECTIONS;
  const min = concurrency + ours;
  if (max === undefined || max >= min) return [];
  return [`WORKER_DATABASE_MAX_CONNECTIONS: must be at least ${min} with WORKER_CONCURRENCY ${concurrency}`];
}

const sealShape = {
  DATABASE_URL: processShape.DATABASE_URL,
  OTP_PEPPER: shape.OTP_PEPPER,
  WEBHOOK_SEAL_KEYS: shape.WEBHOOK_SEAL_KEYS,
} as const;

/** Reads only the encryption keys from the worker's environment. Throws EnvError with every error. */
export function readSealConfig(
  source?: Record<string, string | undefined>,
): Pick<WorkerConfig, "databaseUrl" | "webhookSealKeys"> {
  const env = readEnv(sealShape, source);
  return {
    databaseUrl: env.DATABASE_URL,
    webhookSealKeys: sealKeysOf(env.WEBHOOK_SEAL_KEYS, env.OTP_PEPPER),
  };
}

type WorkerEnv = z.infer<z.ZodObject<typeof shape>>;

function findFaults(env: Partial<WorkerEnv>, broken: ReadonlySet<string>): string[] {
  const faults = [...chainFaults(env, broken), ...connectionFaults(env), ...relayerKeysFaults(env, broken)];
  if (env.RATE_SOURCE !== undefined && env.EXCHANGE_RATE_SOURCES !== undefined)
    faults.push("RATE_SOURCE and EXCHANGE_RATE_SOURCES: are the same setting; set only RATE_SOURCE");
  if (env.NODE_ENV !== "production") return faults;
  const { OTP_PEPPER, WEBHOOK_SEAL_KEYS } = env;
  return [
    ...faults,
    ...openSignerFaults(env),
    ...secretFaults({ OTP_PEPPER, WEBHOOK_SEAL_KEYS }),
    ...baseUrlFaults(env.BASE_URL, broken),
  ];
}

/**
 * Sixty blocks on Base: a clock that is off by a minute does not stop payments. Test chains may produce blocks only for transactions.
 */
const REAL_MONEY_HEAD_MAX_AGE_S = 120;

function headMaxAgeS(env: { NODE_ENV: string; RELAY_HEAD_MAX_AGE_S?: number | undefined }) {
  const ages = NETWORK_IDS.map((id) => {
    const isRealMoney = env.NODE_ENV === "production" && !NETWORKS[id].isTestnet;
    return [id, env.RELAY_HEAD_MAX_AGE_S ?? (isRealMoney ? REAL_MONEY_HEAD_MAX_AGE_S : undefined)];
  });
  return Object.fromEntries(ages) as Record<NetworkId, number | undefined>;
}
