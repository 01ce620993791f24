/**
 * All rate limits of the service, including sign-in, and how requests are counted: per signed-in user, else per client address,
 * in one upsert (db/http/rate-limit-counters.ts). rate-limiter-flexible was measured beside it: 66 µs of CPU and 7,700 requests a second against
 * 30 µs and 19,000, and it needs its own table and connection pool.
 */
import { ServiceError } from "../../core/domain/errors.ts";
import { type Counter, countRequest } from "../../db/http/rate-limit-counters.ts";
import { addressGroup } from "./client-address.ts";
import type { ApiDeps } from "./deps.ts";
import type { ResponseSet } from "./session-cookie.ts";

type Limit = {
  readonly limit: number;
  readonly windowS: number;
  /** Each route of the class has its own counter; otherwise they share one. */
  readonly perRoute?: true;
  /** Counted by client address even for a signed-in user. */
  readonly byAddress?: true;
};

const MINUTE = 60;
const HOUR = 3_600;

const LIMITS = {
  general: { limit: 1_000, windowS: HOUR },
  /** Each step of registration, sign-in and recovery, including e-mail codes. */
  authentication: { limit: 10, windowS: MINUTE, perRoute: true, byAddress: true },
  googleAuthorize: { limit: 10, windowS: MINUTE, byAddress: true },
  walletSetup: { limit: 10, windowS: HOUR, perRoute: true },
  balance: { limit: 100, windowS: HOUR },
  /** Create link, refund, send. */
  paymentOperations: { limit: 50, windowS: HOUR },
  invitations: { limit: 20, windowS: HOUR },
  transactions: { limit: 1_000, windowS: HOUR },
  exports: { limit: 20, windowS: HOUR },
  publicLinkData: { limit: 240, windowS: MINUTE, byAddress: true },
  claims: { limit: 10, windowS: MINUTE, byAddress: true },
  /** Key: the link and the client's address. Counted for new claims. */
  claimsOfLink: { limit: 5, windowS: HOUR },
  discovery: { limit: 60, windowS: MINUTE, byAddress: true },
  x402Requirements: { limit: 120, windowS: MINUTE, byAddress: true },
  x402Pay: { limit: 30, windowS: MINUTE, byAddress: true },
  /** Reading what became of a payment: callers behind one address poll at the same time. */
  x402Payment: { limit: 600, windowS: MINUTE, byAddress: true },
  /** Key: the paying address. Counted with `takeFromLimit` once the payload is parsed. */
  x402Payer: { limit: 10, windowS: MINUTE },
  facilitatorVerify: { limit: 1_200, windowS: MINUTE, byAddress: true },
  facilitatorSettle: { limit: 1_200, windowS: MINUTE },
  testMode: { limit: 6_000, windowS: MINUTE, byAddress: true },
} as const satisfies Record<string, Limit>;

export type LimitName = keyof typeof LIMITS;

/** How long a refused key is refused from memory, so that a flood costs one statement per second. By `performance.now()`. */
const REFUSED_MEMORY_MS = 1_000;
const REFUSED_KEYS_MAX = 10_000;

const refused = new Map<string, { counter: Counter; untilMs: number }>();

/** Counts a request under `limitName`, sets the headers, and throws RATE_LIMITED when the limit is exceeded. */
export async function takeFromLimit(
  deps: Pick<ApiDeps, "sql" | "config">,
  set: ResponseSet,
  taken: { limitName: LimitName; key: string },
): Promise<void> {
  if (!deps.config.rateLimits) return;
  const bound: Limit = LIMITS[taken.limitName];
  const key = `${taken.limitName}:${taken.key}`;
  const counter = recallRefusal(key) ?? (await countRequest(deps.sql, key, bound));
  const resetS = Math.ceil(counter.endsAt.getTime() / 1_000);
  set.headers["x-ratelimit-limit"] = String(bound.limit);
  set.headers["x-ratelimit-remaining"] = String(Math.max(0, bound.limit - counter.count));
  set.headers["x-ratelimit-reset"] = String(resetS);
  if (counter.count <= bound.limit) return;
  rememberRefusal(key, counter);
  const retryAfterS = Math.max(1, Math.ceil((counter.endsAt.getTime() - Date.now()) / 1_000));
  throw new ServiceError("RATE_LIMITED", `Too many requests; try again in ${retryAfterS} seconds`, {
    headers: { "retry-after": String(retryAfterS) },
  });
}

/** The same for a caller: counts the user when signed in, else the address; with the route where each counts by itself. */
export async function takeFromCallersLimit(
  deps: Pick<ApiDeps, "sql" | "config">,
  set: ResponseSet,
  limitName: LimitName,
  caller: { userId?: string | undefined; clientAddress: string; route: string },
): Promise<void> {
  const { byAddress, perRoute }: Limit = LIMITS[limitName];
  const who = caller.userId && !byAddress ? caller.userId : `ip:${addressGroup(caller.clientAddress)}`;
  await takeFromLimit(deps, set, { limitName, key: perRoute ? `${caller.route}:${who}` : who });
}

function recallRefusal(key: string): Counter | undefined {
  const memory = refused.get(key);
  if (!memory) return undefined;
  if (memory.untilMs > performance.now()) return memory.counter;
  refused.delete(key);
  return undefined;
}

function rememberRefusal(key: string, counter: Counter): void {
  if (refused.has(key)) return;
  if (refused.size >= REFUSED_KEYS_MAX) refused.clear();
  const leftMs = Math.min(REFUSED_MEMORY_MS, counter.endsAt.getTime() - Date.now());
  refused.set(key, { counter, untilMs: performance.now() + leftMs });
}
