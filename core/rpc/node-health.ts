/** How well a node does, as seen from its own answers, and the order that follows from it. */
import type { RpcTransportError } from "./errors.ts";

export type NodeHealth = {
  /** Moving average of answered exchanges; 0 before the first. */
  latencyMs: number;
  /** Highest block this node told us of lately. */
  head: { readonly blockNumber: number; readonly seenAtMs: number } | undefined;
  errorsInARow: number;
  lastError: string | undefined;
  /** The node asked to be left alone until then (HTTP 429, -32005). */
  restUntilMs: number;
  /** A failing node is probed in the background from then on. */
  probeAtMs: number;
  /** Settles when the node has proved its chain id; forgotten after a failure, so that it is proved again. */
  chainIdProof: Promise<void> | undefined;
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

export function newHealth(): NodeHealth {
  return {
    latencyMs: 0,
    head: undefined,
    errorsInARow: 0,
    lastError: undefined,
    restUntilMs: 0,
    probeAtMs: 0,
    chainIdProof: undefined,
  };
}

export function noteSuccess(health: NodeHealth, latencyMs: number): void {
  health.latencyMs =
    health.latencyMs === 0 ? latencyMs : health.latencyMs + LATENCY_WEIGHT * (latencyMs - health.latencyMs);
  health.errorsInARow = 0;
  health.restUntilMs = 0;
}

/** A block the node does not know is no fault of its own; everything else without a verdict counts. */
export function noteFailure(health: NodeHealth, error: RpcTransportError, nowMs: number): void {
  health.lastError = error.message;
  if (error.kind === "not-ready" || error.kind === "closed") return;
  const doublings = 2 ** Math.min(health.errorsInARow, 10);
  health.errorsInARow += 1;
  health.chainIdProof = undefined;
  health.probeAtMs = nowMs + Math.min(PROBE_FIRST_MS * doublings, PROBE_MAX_MS);
  if (error.kind !== "rate-limit" && error.retryAfterMs === undefined) return;
  health.restUntilMs = nowMs + (error.retryAfterMs ?? Math.min(REST_FIRST_MS * doublings, REST_MAX_MS));
}

export function noteHead(health: NodeHealth, blockNumber: number, nowMs: number): void {
  health.head = { blockNumber, seenAtMs: nowMs };
}

/** Best first: answering before failing, in step before lagging, fast before slow, then the configured order. */
export function byHealth<T extends { readonly health: NodeHealth }>(nodes: readonly T[], nowMs: number): T[] {
  const heads = nodes.map(({ health }) => freshHead(health, nowMs) ?? 0);
  const best = Math.max(0, ...heads);
  const gradeOf = ({ health }: T): number[] => {
    const head = freshHead(health, nowMs);
    const isLagging = head !== undefined && head + LAG_TOLERATED_BLOCKS < best;
    const latencyGrade = Math.floor(Math.log2(Math.max(1, health.latencyMs / LATENCY_GRADE_MS)));
    return [health.errorsInARow > 0 ? 1 : 0, isLagging ? 1 : 0, latencyGrade];
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
