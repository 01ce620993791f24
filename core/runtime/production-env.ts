/** Production checks on variables that several processes read. Faults are sentences that say how to fix them. */
import { z } from "zod";

export const httpUrl = z.url({ protocol: /^https?$/, error: "must be an http(s) URL" });

/** Scheme, host and port: what is appended to it begins with a slash. */
export const originUrl = httpUrl.refine((text) => {
  const url = URL.parse(text);
  // the refinement runs for text that is no URL too, which the schema has refused already
  if (url === null) return true;
  return url.pathname === "/" && url.username === "" && url.password === "" && !/[?#]/.test(text);
}, "must be only an origin, for example https://pay.example.com");

type Keys = readonly [string, ...string[]];

/** BASE_URL has a default in development only: in production it appears in mails, links and passkeys. */
export function baseUrlFaults(baseUrl: string | undefined, broken: ReadonlySet<string>): string[] {
  if (baseUrl === undefined)
    return broken.has("BASE_URL")
      ? []
      : ["BASE_URL is not set; set it to the public https origin, for example https://pay.example.com"];
  return isHttpsOrLocalhost(baseUrl)
    ? []
    : ["BASE_URL: must be https in production; passkeys and secure cookies need it"];
}

/** http is allowed for `localhost` alone, which browsers treat as a secure context. */
export function isHttpsOrLocalhost(url: string): boolean {
  const { protocol, hostname } = new URL(url);
  return protocol === "https:" || hostname === "localhost";
}

/** Rejects guessable keys, and one key under two names: a leaked secret must not reveal another. */
export function secretFaults(secrets: Readonly<Record<string, readonly string[] | undefined>>): string[] {
  const lists = Object.entries(secrets).map(([name, keys]) => ({ name, keys: keys ?? [] }));
  const guessable = lists
    .filter(({ keys }) => keys.some(isGuessable))
    .map(({ name }) => `${name}: is guessable; make one with \`openssl rand -hex 32\``);
  const shared = lists.flatMap((one, index) =>
    lists
      .slice(index + 1)
      .filter((other) => other.keys.some((key) => one.keys.includes(key)))
      .map((other) => `${one.name} and ${other.name}: must differ, in every key of their lists`),
  );
  return [...guessable, ...shared];
}

/** The secrets that encrypt webhook secrets: WEBHOOK_SEAL_KEYS first, then OTP_PEPPER, with which older rows were encrypted. */
export function sealKeysOf(own: Keys | undefined, peppers: Keys): Keys {
  return own ? [...own, ...peppers] : peppers;
}

/** Settings that work in production but weaken its protection. Logged at every startup. */
export function riskySettings(env: {
  NODE_ENV: string;
  WEBHOOK_PRIVATE_TARGETS?: boolean;
  RATE_LIMITS?: boolean | undefined;
  TRUSTED_PROXIES?: readonly string[] | undefined;
  RELAY_MIN_AMOUNT?: bigint;
  SEND_MIN?: bigint;
  SEND_FEE_USDC?: bigint;
}): string[] {
  if (env.NODE_ENV !== "production") return [];
  const risks: string[] = [];
  if (env.WEBHOOK_PRIVATE_TARGETS)
    risks.push(
      "WEBHOOK_PRIVATE_TARGETS=1: any merchant can send requests into this network, over http and to any port",
    );
  if (env.RATE_LIMITS === false)
    risks.push("RATE_LIMITS=0: one caller's sign-in attempts, claims and payments are not limited");
  if (env.TRUSTED_PROXIES?.some((range) => /\/0+$/.test(range)))
    risks.push(
      "TRUSTED_PROXIES names every address: a caller can claim any address in X-Forwarded-For and evade its own limits; list only the proxies",
    );
  const { RELAY_MIN_AMOUNT, SEND_MIN, SEND_FEE_USDC } = env;
  for (const [name, units = 0n] of Object.entries({ RELAY_MIN_AMOUNT, SEND_MIN, SEND_FEE_USDC }))
    if (units >= LARGE_AMOUNT_UNITS)
      risks.push(`${name} is ${units / UNITS_PER_USDC} USDC: its unit is USDC, not micro-USDC; is it meant?`);
  return risks;
}

const UNITS_PER_USDC = 1_000_000n;
/** 100 USDC: far above any sensible minimum or fee, and below an amount in micro-USDC. */
const LARGE_AMOUNT_UNITS = 100n * UNITS_PER_USDC;

const DISTINCT_CHARACTERS_MIN = 8;
const PLACEHOLDER = /change.?me|secret|password|example|default|development|insecure|1234567890|abcdef0123/i;

/** True for typed text instead of random bytes. 32 random hex digits have fewer than 8 different ones once in 28 million times. */
function isGuessable(text: string): boolean {
  return new Set(text).size < DISTINCT_CHARACTERS_MIN || PLACEHOLDER.test(text);
}
