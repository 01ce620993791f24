/** The API's environment, read once at startup. All errors are reported together; see core/runtime/env.ts. */
import { z } from "zod";
import { type Hex, NETWORK_IDS } from "../core/domain/networks.ts";
import { parseRecipient, type RecipientIssue } from "../core/domain/recipient.ts";
import { WALLET_FACTORIES } from "../core/domain/wallet-factories.ts";
import { chainFaults, chainShape, enabledChains } from "../core/runtime/chain-env.ts";
import {
  commaList,
  EMPTY_LIST,
  flag,
  listenHost,
  processShape,
  readEnv,
  secretList,
  standbyUrl,
  tracesPlace,
  wholeNumber,
} from "../core/runtime/env.ts";
import {
  baseUrlFaults,
  httpUrl,
  isHttpsOrLocalhost,
  originUrl,
  riskySettings,
  sealKeysOf,
  secretFaults,
} from "../core/runtime/production-env.ts";
import { isOnThisMachine } from "../core/runtime/public-url.ts";
import { isRegistrable, isRegistrableParent, registrableLabel } from "../core/runtime/registrable-domain.ts";
import {
  merchantGasPerDay,
  relayLimitsShape,
  sendGasTotalPerDay,
  sendLimitsShape,
  usdcAmount,
} from "../core/runtime/relay-limits-env.ts";
import { proxyFaults, readProxies } from "../core/runtime/trusted-proxies.ts";

const WAIT_MAX_MS = 120_000;
/** Maximum accepted by the server (Bun). */
const IDLE_MAX_S = 255;
const IDLE_MIN_S = 60;

/** Connections for payments; few, because each one plans every payment statement again. */
const PLANNED_CONNECTIONS = 4;

const ADDRESS = /^0x[0-9a-f]{40}$/i;
const address = z
  .string()
  .regex(ADDRESS, "must be an address (0x and 40 hex digits)")
  .transform((text) => text.toLowerCase() as Hex);

/** It receives money, so a mistyped digit must not pass. */
const feeAddress = z
  .string()
  .refine((text) => feeRecipientIssue(text) !== "invalid", "must be an address (0x and 40 hex digits)")
  .refine(
    (text) => feeRecipientIssue(text) !== "bad_checksum",
    "has a wrong checksum (EIP-55), so a digit is mistyped: copy it from the wallet that shall receive the fee",
  )
  .transform((text) => text.toLowerCase() as Hex);

/** What makes it unable to receive USDC on one of the networks. */
function feeRecipientIssue(text: string): RecipientIssue | undefined {
  const recipients = NETWORK_IDS.map((network) => parseRecipient(text, { network, wallet: "0x" }));
  return recipients.find((recipient) => !recipient.ok)?.issue;
}

const shape = {
  ...processShape,
  ...chainShape,
  ...relayLimitsShape,
  ...sendLimitsShape,
  HOST: listenHost.default("127.0.0.1"),
  PORT: wholeNumber(0, 65_535).default(3000),
  BASE_URL: originUrl.optional(),
  DASHBOARD_URL: httpUrl.optional(),
  DATABASE_READ_URL: standbyUrl.optional(),
  DATABASE_MAX_CONNECTIONS: wholeNumber(2, 200).default(10),
  JWT_SECRET: secretList("it signs session tokens"),
  OTP_PEPPER: secretList("it hashes and encrypts e-mail codes; the worker needs the same value"),
  WEBHOOK_SEAL_KEYS: secretList("it encrypts webhook secrets").optional(),
  OFFER_SIGNING_KEYS: secretList("it signs offers and receipts").optional(),
  WEBHOOK_PRIVATE_TARGETS: flag.default(false),
  RP_ID: z.string().optional(),
  RP_NAME: z.string().default("USDC Payments"),
  RP_ORIGINS: commaList.pipe(z.array(httpUrl).min(1, EMPTY_LIST)).optional(),
  RP_RELATED_ORIGINS: commaList.pipe(z.array(httpUrl)).optional(),
  PASSKEY_ATTACHMENT: z.enum(["platform", "any"]).default("platform"),
  GOOGLE_CLIENT_ID: z.string().optional(),
  GOOGLE_CLIENT_SECRET: z.string().optional(),
  GOOGLE_ISSUER: httpUrl.default("https://accounts.google.com"),
  TEST_MODE: flag.default(false),
  TEST_WALLET: address.optional(),
  WALLETCONNECT_PROJECT_ID: z
    .string()
    .regex(/^[0-9a-f]{32}$/, "must be the project's id (32 hex digits)")
    .optional(),
  BASE_ACCOUNT: flag.default(false),
  TRUSTED_PROXIES: commaList.optional(),
  WALLET_DEPLOYMENT: z.enum(["eager", "lazy"]).optional(),
  SEND_MIN: usdcAmount("0.01"),
  SEND_FEE_USDC: usdcAmount("0"),
  FEE_ADDRESS: feeAddress.optional(),
  PAY_WAIT_MS: wholeNumber(0, WAIT_MAX_MS).default(10_000),
  EXPORT_WAIT_MS: wholeNumber(0, WAIT_MAX_MS).default(15_000),
  DRAIN_S: wholeNumber(0, 300).default(5),
  RATE_LIMITS: flag.optional(),
  FACILITATOR: flag.default(false),
  /** `none`: payers with an undeployed wallet are refused. */
  ERC6492_FACTORIES: commaList
    .transform((items) => (items.length === 1 && items[0] === "none" ? [] : items))
    .pipe(z.array(z.string().regex(ADDRESS, "must be addresses (0x and 40 hex digits), or none")))
    .optional(),
  RELAYER_BALANCE_FLOOR_WEI: z
    .string()
    .regex(/^\d{1,30}$/, "must be whole wei")
    .default("2000000000000000"),
} as const;

/** Names of all variables that the API reads. */
export const API_SETTINGS = Object.keys(shape);

export type GoogleConfig = { clientId: string; clientSecret: string; issuer: string };

/** Reads and checks the environment. Throws EnvError with every error. */
export function readApiConfig(source?: Record<string, string | undefined>) {
  const env = readEnv(shape, source, findFaults);
  const baseUrl = trimSlash(env.BASE_URL ?? `http://localhost:${env.PORT}`);
  return {
    nodeEnv: env.NODE_ENV,
    logLevel: env.LOG_LEVEL,
    databaseUrl: env.DATABASE_URL,
    /** A replica, for lists. */
    databaseReadUrl: env.DATABASE_READ_URL,
    /** The process's database connections, by pool; LISTEN takes one more. */
    connections: shareConnections(env.DATABASE_MAX_CONNECTIONS),
    metrics: { port: env.METRICS_PORT, host: env.METRICS_HOST },
    traces: tracesPlace(env),
    host: env.HOST,
    port: env.PORT,
    /** Public origin without a trailing slash; builds `url`, `aiUrl` and redirects. */
    baseUrl,
    /** Redirect target after Google sign-in; without a trailing slash. */
    dashboardUrl: trimSlash(env.DASHBOARD_URL ?? `${baseUrl}/dashboard`),
    chains: enabledChains(env),
    /** Newest first: the first one signs, hashes and encrypts; all of them verify and decrypt. */
    jwtSecrets: env.JWT_SECRET,
    otpPeppers: env.OTP_PEPPER,
    webhookSealKeys: sealKeysOf(env.WEBHOOK_SEAL_KEYS, env.OTP_PEPPER),
    /** Keys for x402 offers and receipts; undefined: nothing is signed. */
    offerSigningKeys: env.OFFER_SIGNING_KEYS,
    /** Risky settings, logged at every startup. */
    risks: riskySettings({ ...env, RATE_LIMITS: env.RATE_LIMITS ?? true }),
    /** Webhooks may target http URLs and private addresses: for receivers in the operator's own network. */
    webhookPrivateTargets: env.WEBHOOK_PRIVATE_TARGETS,
    passkey: {
      rpId: env.RP_ID ?? new URL(baseUrl).hostname,
      rpName: env.RP_NAME,
      origins: (env.RP_ORIGINS ?? [baseUrl]).map((url) => new URL(url).origin),
      /** Origins on other domains that may use the passkeys of `rpId`; see well-known-routes.ts. */
      relatedOrigins: (env.RP_RELATED_ORIGINS ?? []).map((url) => new URL(url).origin),
      attachment: env.PASSKEY_ATTACHMENT,
    },
    google:
      env.GOOGLE_CLIENT_ID && env.GOOGLE_CLIENT_SECRET
        ? {
            clientId: env.GOOGLE_CLIENT_ID,
            clientSecret: env.GOOGLE_CLIENT_SECRET,
            issuer: trimSlash(env.GOOGLE_ISSUER),
          }
        : undefined,
    testMode: env.TEST_MODE,
    /** An account that the local chain signs for: payment pages show it as a wallet. */
    testWallet: env.TEST_WALLET,
    /** Wallets outside the browser that payment pages offer; each needs additional origins in the content security policy. */
    furtherWallets: {
      walletConnectProjectId: env.WALLETCONNECT_PROJECT_ID,
      baseAccount: env.BASE_ACCOUNT,
    },
    trustedProxies: readProxies(env.TRUSTED_PROXIES ?? []),
    /** Undefined: eager on testnets, lazy on base. */
    walletDeployment: env.WALLET_DEPLOYMENT,
    ignored: ignoredSettings(env),
    /** Minimum of a send or payout, in micro-USDC. */
    sendMinUnits: env.SEND_MIN,
    /** Gas that one user's sends may use in a UTC day. */
    sendGasPerDay: BigInt(env.SEND_GAS_PER_DAY),
    /** Gas that all sends of a network may use in a UTC day; undefined: no limit. */
    sendGasTotalPerDay: sendGasTotalPerDay(env),
    /** The fee that each send pays the service, inside its batch; refunds are free. */
    sendFee:
      env.SEND_FEE_USDC > 0n && env.FEE_ADDRESS
        ? { units: env.SEND_FEE_USDC, address: env.FEE_ADDRESS }
        : undefined,
    payWaitMs: env.PAY_WAIT_MS,
    exportWaitMs: env.EXPORT_WAIT_MS,
    /** After SIGTERM: seconds during which the process reports that it is not ready and keeps serving requests. */
    drainS: env.DRAIN_S,
    /** Idle connections are closed after this time. */
    idleTimeoutS: idleTimeoutS(Math.max(env.PAY_WAIT_MS, env.EXPORT_WAIT_MS)),
    rateLimits: env.RATE_LIMITS ?? env.NODE_ENV !== "development",
    /** Settles x402 payments for third-party resources. */
    facilitator: env.FACILITATOR,
    // matched as addresses above
    /** Factories that a payer's signature may deploy from. Lower case. */
    walletFactories: env.ERC6492_FACTORIES?.map((text) => text.toLowerCase() as Hex) ?? WALLET_FACTORIES,
    relayerBalanceFloorWei: BigInt(env.RELAYER_BALANCE_FLOOR_WEI),
    /** Micro-USDC; smaller amounts are not relayed. */
    relayMinUnits: env.RELAY_MIN_AMOUNT,
    /** Gas that relaying for one merchant may use per network and UTC day; undefined: no limit. */
    relayGasPerMerchantPerDay: merchantGasPerDay(env),
  };
}

export type ApiConfig = ReturnType<typeof readApiConfig>;

type ApiEnv = z.infer<z.ZodObject<typeof shape>>;

/** Payments have a separate pool, at most half of all connections. */
function shareConnections(max: number) {
  const planned = Math.min(PLANNED_CONNECTIONS, Math.floor(max / 2));
  return { pool: max - planned, planned };
}

function findFaults(env: Partial<ApiEnv>, broken: ReadonlySet<string>): string[] {
  const faults = [...chainFaults(env, broken), ...proxyFaults(env.TRUSTED_PROXIES ?? [])];
  if ((env.GOOGLE_CLIENT_ID === undefined) !== (env.GOOGLE_CLIENT_SECRET === undefined))
    faults.push("GOOGLE_CLIENT_ID and GOOGLE_CLIENT_SECRET: set both or neither");
  faults.push(...testWalletFaults(env), ...relatedOriginFaults(env), ...sendFeeFaults(env, broken));
  return env.NODE_ENV === "production" ? [...faults, ...productionFaults(env, broken)] : faults;
}

/** A fee without a recipient, or with one that cannot receive it. */
function sendFeeFaults(
  { SEND_FEE_USDC = 0n, FEE_ADDRESS }: Partial<ApiEnv>,
  broken: ReadonlySet<string>,
): string[] {
  if (SEND_FEE_USDC === 0n || broken.has("FEE_ADDRESS")) return [];
  if (FEE_ADDRESS === undefined) return ["FEE_ADDRESS: must be set with SEND_FEE_USDC, it receives the fee"];
  return feeRecipientIssue(FEE_ADDRESS) ? [`FEE_ADDRESS: ${FEE_ADDRESS} cannot receive USDC`] : [];
}

/** Everyone who opens a payment page can spend this wallet's funds. */
function testWalletFaults(env: Partial<ApiEnv>): string[] {
  if (env.TEST_WALLET === undefined) return [];
  if (env.NODE_ENV === "production") return ["TEST_WALLET: must not be set in production"];
  const urls = [env.RPC_URL_BASE, env.RPC_URL_BASE_SEPOLIA].flatMap((list) => list ?? []);
  const remote = urls.filter((url) => !isOnThisMachine(url)).map((url) => new URL(url).host);
  return remote.length === 0
    ? []
    : [`TEST_WALLET: only for chains on this machine, not with a node at ${remote.join(", ")}`];
}

/** Settings that were given and have no effect here. Logged at every start. */
function ignoredSettings(env: ApiEnv): string[] {
  return env.WALLET_DEPLOYMENT === "eager" && enabledChains(env).some(({ id }) => id === "base")
    ? [
        "WALLET_DEPLOYMENT=eager: not on base, where a wallet's first send deploys it, so that a sign-up costs nothing",
      ]
    : [];
}

function productionFaults(env: Partial<ApiEnv>, broken: ReadonlySet<string>): string[] {
  const {
    JWT_SECRET,
    OTP_PEPPER,
    WEBHOOK_SEAL_KEYS,
    OFFER_SIGNING_KEYS,
    RP_ORIGINS,
    RP_RELATED_ORIGINS,
    GOOGLE_ISSUER,
  } = env;
  const faults: string[] = [];
  if (env.TEST_MODE) faults.push("TEST_MODE: must be off in production");
  faults.push(...secretFaults({ JWT_SECRET, OTP_PEPPER, WEBHOOK_SEAL_KEYS, OFFER_SIGNING_KEYS }));
  faults.push(...baseUrlFaults(env.BASE_URL, broken), ...rpIdFaults(env));
  for (const [name, origins] of Object.entries({ RP_ORIGINS, RP_RELATED_ORIGINS })) {
    const open = (origins ?? []).filter((origin) => !isHttpsOrLocalhost(origin));
    if (open.length === 0) continue;
    faults.push(
      `${name}: must be https in production (${open.join(", ")}): an attacker on the network path can change such a page`,
    );
  }
  if (GOOGLE_ISSUER !== undefined && !GOOGLE_ISSUER.startsWith("https://"))
    faults.push("GOOGLE_ISSUER: must be https in production");
  return faults;
}

/** Browsers support at least this many different names, and ignore the rest (WebAuthn level 3, section 5.11.1). */
const RELATED_LABELS_MAX = 5;

function relatedOriginFaults({ RP_RELATED_ORIGINS: origins = [] }: Partial<ApiEnv>): string[] {
  const labels = new Set(origins.map(registrableLabel));
  if (labels.size > RELATED_LABELS_MAX)
    return [
      `RP_RELATED_ORIGINS: ${labels.size} different registrable names; browsers accept at most ${RELATED_LABELS_MAX}: ${[...labels].join(", ")}`,
    ];
  return [];
}

/**
 * Passkeys and wallets are permanently bound to the RP id, so a domain that is not ours must never be stored. After a move to another domain the
 * old one stays the RP id and lists the new origin.
 */
function rpIdFaults({ BASE_URL, RP_ID, RP_RELATED_ORIGINS = [] }: Partial<ApiEnv>): string[] {
  if (BASE_URL === undefined || RP_ID === undefined) return [];
  const { hostname: host, origin } = new URL(BASE_URL);
  if (isRegistrableParent(RP_ID, host)) return [];
  if (isRegistrable(RP_ID) && RP_RELATED_ORIGINS.some((url) => new URL(url).origin === origin)) return [];
  return [
    `RP_ID: "${RP_ID}" is neither ${host}, the host of BASE_URL, nor a registrable parent domain of it; passkeys would not work, or would belong to someone else`,
  ];
}

function trimSlash(url: string): string {
  return url.replace(/\/+$/, "");
}

/** A waiting request may take two waits and a little more (an unresponsive database): its connection must stay open that long. */
function idleTimeoutS(longestWaitMs: number): number {
  return Math.min(Math.max(IDLE_MIN_S, Math.ceil((2 * longestWaitMs) / 1000) + 15), IDLE_MAX_S);
}
