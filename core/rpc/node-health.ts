/** The health of a node as shown by its responses, the request sizes it accepts, and the resulting order of nodes. */

import { type AdaptiveLimit, newAdaptiveLimit } from "./adaptive-limit.ts";
import type { RpcTransportError } from "./errors.ts";

/** Times by `performance.now()`: if a wall clock were set back, a node would rest for that long. */
export type NodeHealth = {
  /** Moving average of answered exchanges; 0 before the first. */
  latencyMs: number;
  /** Newest block that this node has reported recently. */
  head: { readonly blockNumber: number; readonly seenAtMs: number } | undefined;
  errorsInARow: number;
  rateLimitsInARow: number;
  lastError: string | undefined;
  /** The node asked for no requests until then (HTTP 429, -32005). */
  restUntilMs: number;
  /** A failing node is probed in the background from then on. */
  probeAtMs: number;
  isProbing: boolean;
  /** Settles when the node has proved its chain id; forgotten with the connection, behind which another node may come back. */
  chainIdProof: Promise<void> | undefined;
  /** By its latest answer about its chain id. */
  servesWrongChain: boolean;
  readonly batchCalls: AdaptiveLimit;
  readonly logBlocks: AdaptiveLimit;
};

const LATENCY_WEIGHT = 0.2;
/** Latencies are compared in grades: below this they are equal, then each doubling is one grade. */
const LATENCY_GRADE_MS = 50;
const LAG_TOLERATED_BLOCKS = 3;
const HEAD_FRESH_MS = 15_000;
const REST_FIRST_MS = 250;
const REST_MAX_MS = 10_000;
const PROBE_FIRST_MS = 500;
const PROBE_MAX_MS = 30_000;
/** Calls per HTTP batch: known providers accept the initial size or refuse explicitly; the maximum is the most we ever send at a time. */
const BATCH_CALLS = { first: 50, max: 1_000 };
/** Blocks in one log query. */
const LOG_BLOCKS = { first: 500, max: 2_000 };

export function newHealth(): NodeHealth {
  return {
    latencyMs: 0,
    head: undefined,
    errorsInARow: 0,
    rateLimitsInARow: 0,
    lastError: undefined,
    restUntilMs: 0,
    probeAtMs: 0,
    isProbing: false,
    chainIdProof: undefined,
    servesWrongChain: false,
    batchCalls: newAdaptiveLimit(BATCH_CALLS),
    logBlocks: newAdaptiveLimit(LOG_BLOCKS),
  };
}

export function noteSuccess(health: NodeHealth, latencyMs: number): void {
  health.latencyMs =
    health.latencyMs === 0 ? latencyMs : health.latencyMs + LATENCY_WEIGHT * (latencyMs - health.latencyMs);
  // a rest is never cut short, because this response may be older than the request to rest
  health.errorsInARow = 0;
  health.rateLimitsInARow = 0;
}

/**
 * An unknown block does not count as a failure of the node, nor does rate limiting; everything else without a verdict does.
 */
export function noteFailure(health: NodeHealth, error: RpcTransportError, nowMs: number): void {
  health.lastError = error.message;
  if (error.kind === "not-ready" || error.kind === "closed") return;
  if (error.kind === "unreachable" || error.kind === "timeout") health.chainIdProof = undefined;
  if (error.kind === "rate-limit") {
    const restMs = Math.min(REST_FIRST_MS * 2 ** Math.min(health.rateLimitsInARow, 10), REST_MAX_MS);
    health.rateLimitsInARow += 1;
    rest(health, nowMs + (error.retryAfterMs ?? restMs));
    return;
  }
  const doublings = 2 ** Math.min(health.errorsInARow, 10);
  health.errorsInARow += 1;
  health.probeAtMs = nowMs + Math.min(PROBE_FIRST_MS * doublings, PROBE_MAX_MS);
  if (error.retryAfterMs !== undefined) rest(health, nowMs + error.retryAfterMs);
}

function rest(health: NodeHealth, untilMs: number): void {
  health.restUntilMs = Math.max(health.restUntilMs, untilMs);
}

export function noteHead(health: NodeHealth, blockNumber: number, nowMs: number): void {
  health.head = { blockNumber, seenAtMs: nowMs };
}

/** Whether a node lags behind another one by more than normal block propagation. */
export function hasLagging(nodes: readonly { readonly health: NodeHealth }[], nowMs: number): boolean {
  const heads = nodes.flatMap(({ health }) => freshHead(health, nowMs) ?? []);
  return Math.min(...heads) + LAG_TOLERATED_BLOCKS < Math.max(...heads);
}

/** Best first: rested before resting, answering before failing, in step before lagging, fast before slow, then the configured order. */
export function byHealth<T extends { readonly health: NodeHealth }>(nodes: readonly T[], nowMs: number): T[] {
  const heads = nodes.map(({ health }) => freshHead(health, nowMs) ?? 0);
  const best = Math.max(0, ...heads);
  const gradeOf = ({ health }: T): number[] => {
    const head = freshHead(health, nowMs);
    const isLagging = head !== undefined && head + LAG_TOLERATED_BLOCKS < best;
    const latencyGrade = Math.floor(Math.log2(Math.max(1, health.latencyMs / LATENCY_GRADE_MS)));
    return [
      health.restUntilMs > nowMs ? 1 : 0,
      health.errorsInARow > 0 ? 1 : 0,
      isLagging ? 1 : 0,
      latencyGrade,
    ];
  };
  const graded = nodes.map((node, index) => ({ node, grade: [...gradeOf(node), index] }));
  return graded.sort((a, b) => compareGrades(a.grade, b.grade)).map(({ node }) => node);
}

function compareGrades(a: readonly number[], b: readonly number[]): number {
  for (const [index, value] of a.entries()) {
    const difference = value - (b[index] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

function freshHead(health: NodeHealth, nowMs: number): number | undefined {
  return health.head && nowMs - health.head.seenAtMs <= HEAD_FRESH_MS ? health.head.blockNumber : undefined;
}
