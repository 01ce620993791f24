/** The environment of each service process on a developer's machine. The developer's own values take precedence. */
import type { NetworkId } from "../core/domain/networks.ts";
import { readFileVariables } from "../core/runtime/file-variables.ts";

export const SERVICE_KINDS = ["api", "worker", "indexer"] as const;
export type ServiceKind = (typeof SERVICE_KINDS)[number];

export type ServiceSettings = {
  databaseUrl: string;
  /** One or more comma-separated URLs per enabled network. */
  rpcUrls: Partial<Record<NetworkId, string>>;
  smtpUrl: string;
  jwtSecret: string;
  otpPepper: string;
  offerSigningKey?: string;
  /** Comma-separated. */
  relayerKeys: string;
  dataDir: string;
};

export type Environment = Record<string, string | undefined>;

/** Which process gets which secret: keys that can spend go to the worker only, sessions to the API. */
const KNOWN_ONLY_TO: Record<string, readonly ServiceKind[]> = {
  RELAYER_PRIVATE_KEYS: ["worker"],
  RELAYER_PRIVATE_KEYS_BASE: ["worker"],
  RELAYER_PRIVATE_KEYS_BASE_SEPOLIA: ["worker"],
  RELAYER_SIGNER_ADDRESSES: ["worker"],
  RELAYER_SIGNER_URL: ["worker"],
  RELAYER_SIGNER_URL_BASE: ["worker"],
  RELAYER_SIGNER_URL_BASE_SEPOLIA: ["worker"],
  JWT_SECRET: ["api"],
  OTP_PEPPER: ["api", "worker"],
  WEBHOOK_SEAL_KEYS: ["api", "worker"],
  OFFER_SIGNING_KEYS: ["api"],
  GOOGLE_CLIENT_SECRET: ["api"],
  SMTP_URL: ["worker"],
  TEST_WALLET: ["api"],
};

/** Variables that `npm start` sets when they are absent, and those that only some processes may read. */
const GIVEN_AS_FILES = [
  ...Object.keys(KNOWN_ONLY_TO),
  ...["DATABASE_URL", "DATABASE_READ_URL", "RPC_URL_BASE", "RPC_URL_BASE_SEPOLIA"],
];

/** With the content of `NAME_FILE` as `NAME`, for addresses and secrets. Throws for a file that cannot be used, and where both are set. */
export function withFileContents(env: Environment): Environment {
  const { values, faults } = readFileVariables(GIVEN_AS_FILES, env);
  if (faults.length > 0) throw new Error(faults.join("\n"));
  const rest = Object.entries(env).filter(([name]) => !GIVEN_AS_FILES.some((one) => name === `${one}_FILE`));
  const read = Object.entries(values).filter(([, value]) => value !== undefined);
  return { ...Object.fromEntries(rest), ...Object.fromEntries(read) };
}

/** `given` overrides the local defaults; variables of other processes are removed. */
export function serviceEnv(kind: ServiceKind, settings: ServiceSettings, given: Environment): Environment {
  const networks = Object.keys(settings.rpcUrls).join(",");
  const defaults: Environment = {
    NODE_ENV: "development",
    TEST_MODE: given.NODE_ENV === "production" ? "0" : "1",
    HOST: "127.0.0.1",
    NETWORKS: networks,
    CONFIRMATIONS_BASE: "1",
    CONFIRMATIONS_BASE_SEPOLIA: "1",
    // no balancer in front
    DRAIN_S: "0",
    // a local node costs nothing
    ACCOUNT_LOGS_EVERY_S: "2",
    MAIL_FROM: "USDC Payments <no-reply@localhost>",
    PASSKEY_ATTACHMENT: "any",
    JWT_SECRET: settings.jwtSecret,
    OTP_PEPPER: settings.otpPepper,
    OFFER_SIGNING_KEYS: settings.offerSigningKey,
    // with a remote signer the local chain's keys relay nothing
    RELAYER_PRIVATE_KEYS: given.RELAYER_SIGNER_ADDRESSES ? undefined : settings.relayerKeys,
  };
  const fixed: Environment = {
    DATABASE_URL: settings.databaseUrl,
    RPC_URL_BASE: settings.rpcUrls.base,
    RPC_URL_BASE_SEPOLIA: settings.rpcUrls["base-sepolia"],
    SMTP_URL: settings.smtpUrl,
    DATA_DIR: settings.dataDir,
  };
  const whole = { ...defaults, ...withoutEmpty(given), ...fixed };
  return Object.fromEntries(
    Object.entries(whole).filter(([name]) => KNOWN_ONLY_TO[name]?.includes(kind) ?? true),
  );
}

/** The processes share a machine, so each has its own metrics port, counted up from the given one. */
export function metricsPortOf(kind: ServiceKind, first: number | undefined): Environment {
  if (!first) return {};
  return { METRICS_PORT: String(first + SERVICE_KINDS.indexOf(kind)) };
}

/** Only on a developer's machine: webhooks may reach receivers on it. */
export function localDefaults({ NODE_ENV }: Environment): Environment {
  return NODE_ENV === "production" ? {} : { WEBHOOK_PRIVATE_TARGETS: "1" };
}

function withoutEmpty(given: Environment): Environment {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined && value !== ""));
}
