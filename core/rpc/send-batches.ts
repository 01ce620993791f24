/**
 * Calls to one node in batches of the size it accepts. A batch that is refused as a whole, with any error, is halved and sent again
 * until it is accepted or holds a single call; the size is kept in the node's health.
 */

import { noteAccepted, noteRefused } from "./adaptive-limit.ts";
import {
  isExecutionFailure,
  isRefusal,
  type RpcError,
  RpcResponseError,
  RpcTransportError,
  type TransportKind,
} from "./errors.ts";
import type { ChainNode, RpcCall, RpcOutcome } from "./node.ts";
import { noteFailure, noteHead, noteSuccess } from "./node-health.ts";
import { fieldOf, parseQuantity } from "./parse-answers.ts";

/** Batches sent concurrently, of a size that was accepted before. */
const BATCHES_AT_ONCE = 4;
/** Among many requests one occasionally fails: only that one is retried, since starting over would run into the next failure. */
const PIECE_ATTEMPTS_MAX = 3;
const METHOD_NOT_FOUND = -32601;
const PASSING: ReadonlySet<TransportKind> = new Set(["unreachable", "node-error", "malformed"]);

/** The outcomes by HTTP request, in the order of the calls. Throws RpcTransportError when a batch, or a single call, had no verdict. */
export async function exchangeAll(
  node: ChainNode,
  calls: readonly RpcCall[],
  { timeoutMs, inOrder }: { timeoutMs: number; inOrder: boolean },
): Promise<RpcOutcome[][]> {
  const limit = node.health.batchCalls;
  const answered: RpcOutcome[][] = [];
  for (let at = 0; at < calls.length; ) {
    const width = !inOrder && limit.accepted >= limit.size ? BATCHES_AT_ONCE : 1;
    const batches = Array.from({ length: width }, (_, index) =>
      calls.slice(at + index * limit.size, at + (index + 1) * limit.size),
    ).filter((batch) => batch.length > 0);
    const isAlone = calls.length === 1;
    const replies = await Promise.all(
      batches.map((batch) =>
        batch.length === calls.length
          ? exchangeBatch(node, batch, { timeoutMs, isAlone })
          : exchangePiece(node, batch, { timeoutMs, isAlone }),
      ),
    );
    const firstRefused = replies.indexOf("refused");
    const usable = firstRefused < 0 ? replies : replies.slice(0, firstRefused);
    for (const [index, outcomes] of usable.entries()) {
      if (outcomes === "refused") continue;
      answered.push(outcomes);
      at += batches[index]?.length ?? 0;
    }
  }
  const noVerdict = withoutVerdict(answered.flat());
  if (noVerdict && !areRefusedLogs(calls, answered.flat())) throw noVerdict;
  return answered;
}

/** A batch of several. After an error that says nothing about when to come back it is sent again. */
async function exchangePiece(
  node: ChainNode,
  calls: readonly RpcCall[],
  given: { timeoutMs: number; isAlone: boolean },
): Promise<RpcOutcome[] | "refused"> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await exchangeBatch(node, calls, given);
    } catch (error) {
      const isPassing = error instanceof RpcTransportError && PASSING.has(error.kind);
      if (!isPassing || attempt === PIECE_ATTEMPTS_MAX) throw error;
    }
  }
}

async function exchangeBatch(
  node: ChainNode,
  calls: readonly RpcCall[],
  { timeoutMs, isAlone }: { timeoutMs: number; isAlone: boolean },
): Promise<RpcOutcome[] | "refused"> {
  const limit = node.health.batchCalls;
  if (calls.length === 1) {
    const outcomes = await exchangeOne(node, calls, { timeoutMs, isAlone });
    // a limit of one rises again like any other; a call that was never part of a batch says nothing
    if (!isAlone && outcomes[0]?.ok) noteAccepted(limit, 1, performance.now());
    return outcomes;
  }
  try {
    const outcomes = await exchange(node, calls, timeoutMs);
    if (isRefusedAlike(calls, outcomes)) {
      noteRefused(limit, calls.length, performance.now());
      return "refused";
    }
    noteAccepted(limit, calls.length, performance.now());
    return outcomes;
  } catch (error) {
    // whatever the reason, fewer calls are the better bet next time; a node that said when to come back gets the same again
    const saidWhen = error instanceof RpcTransportError && error.retryAfterMs !== undefined;
    if (!saidWhen || node.health.rateLimitsInARow > 1) noteRefused(limit, calls.length, performance.now());
    if (isRefusal(error)) return "refused";
    throw error;
  }
}

/** A refused call fails alone, as it would have in a batch. */
async function exchangeOne(
  node: ChainNode,
  calls: readonly RpcCall[],
  { timeoutMs, isAlone }: { timeoutMs: number; isAlone: boolean },
): Promise<RpcOutcome[]> {
  try {
    return await exchange(node, calls, timeoutMs);
  } catch (error) {
    if (isAlone || !(error instanceof RpcTransportError && error.isRefusal)) throw error;
    return [{ ok: false, error }];
  }
}

/** Sends, times and records one HTTP request. An answer without any verdict counts as a failed one. */
export async function exchange(
  node: ChainNode,
  calls: readonly RpcCall[],
  timeoutMs: number,
): Promise<RpcOutcome[]> {
  const startedMs = performance.now();
  try {
    const outcomes = await node.send(calls, timeoutMs);
    const rateLimit = outcomes.map(transportErrorOf).find(isRequestLimit);
    const noVerdict = withoutVerdict(outcomes);
    const isOfSize = isRefusedAlike(calls, outcomes) || areRefusedLogs(calls, outcomes);
    if (noVerdict && !isOfSize) throw noVerdict;
    const unrun = isOfSize ? undefined : outcomeOfUnrunCalls(calls, outcomes);
    if (unrun)
      noteFailure(node.health, new RpcTransportError("node-error", unrun.message), performance.now());
    else noteSuccess(node.health, performance.now() - startedMs);
    if (rateLimit) noteFailure(node.health, rateLimit, performance.now());
    for (const [index, call] of calls.entries()) observeHead(node, call, outcomes[index]);
    return outcomes;
  } catch (error) {
    // a batch or a log query that is refused for its size says nothing against the node, nor does an answer that is too large
    const isTooLarge = error instanceof RpcTransportError && error.kind === "too-large";
    const isOfSize =
      isTooLarge || ((calls.length > 1 || calls[0]?.method === "eth_getLogs") && isRefusal(error));
    if (error instanceof RpcTransportError && !isOfSize) noteFailure(node.health, error, performance.now());
    throw error;
  }
}

/** Some nodes refuse a batch by the same error for each of its calls. */
function isRefusedAlike(calls: readonly RpcCall[], outcomes: readonly RpcOutcome[]): boolean {
  const errors = outcomes.flatMap((outcome) => (outcome.ok ? [] : [outcome.error]));
  const [first] = errors;
  if (!first || outcomes.length === 1 || errors.length < outcomes.length) return false;
  if (areRefusedLogs(calls, outcomes)) return false;
  if (!isRefusal(first) || isExecutionFailure(first)) return false;
  if (first instanceof RpcResponseError && first.rpcCode === METHOD_NOT_FOUND) return false;
  if (first instanceof RpcTransportError && first.kind === "not-ready") return false;
  return errors.every((error) => wordsOf(error) === wordsOf(first));
}

/** Several log queries, each refused for its own size: the asker has to know of each. */
function areRefusedLogs(calls: readonly RpcCall[], outcomes: readonly RpcOutcome[]): boolean {
  return (
    calls.length > 1 &&
    calls.every(({ method }) => method === "eth_getLogs") &&
    outcomes.every((outcome) => !outcome.ok && isRefusal(outcome.error))
  );
}

/** Without the method, which the message begins with. */
function wordsOf({ message }: RpcError): string {
  return message.slice(message.indexOf(" on "));
}

/** The error of calls of contracts none of which was run: it may be the node's own. Callers get it as it is. */
function outcomeOfUnrunCalls(
  calls: readonly RpcCall[],
  outcomes: readonly RpcOutcome[],
): RpcError | undefined {
  const errors = outcomes.flatMap((outcome) => (outcome.ok ? [] : [outcome.error]));
  const areUnrun =
    errors.length === calls.length &&
    calls.every(({ method }) => method === "eth_call") &&
    !errors.some(isExecutionFailure);
  return areUnrun ? errors[0] : undefined;
}

function isRequestLimit(error: RpcTransportError | undefined): boolean {
  return error?.kind === "rate-limit" && !error.isRefusal;
}

/** The error of the first call, when no call has a verdict. Of several it says nothing about the batch, which was taken apart. */
function withoutVerdict(outcomes: readonly RpcOutcome[]): RpcTransportError | undefined {
  const errors = outcomes.flatMap((outcome) => transportErrorOf(outcome) ?? []);
  const [first] = errors;
  if (!first || errors.length < outcomes.length) return undefined;
  const { kind, message, retryAfterMs } = first;
  return outcomes.length === 1 ? first : new RpcTransportError(kind, message, { retryAfterMs });
}

function transportErrorOf(outcome: RpcOutcome): RpcTransportError | undefined {
  return !outcome.ok && outcome.error instanceof RpcTransportError ? outcome.error : undefined;
}

function observeHead(node: ChainNode, call: RpcCall, outcome: RpcOutcome | undefined): void {
  if (!outcome?.ok) return;
  const isBlock = call.method === "eth_getBlockByNumber" && call.params[0] === "latest";
  if (!isBlock && call.method !== "eth_blockNumber") return;
  const number = isBlock ? fieldOf(outcome.result, "number") : outcome.result;
  // whoever asked for the block finds that there is none
  if (isBlock && number === undefined) return;
  noteHead(node.health, Number(parseQuantity(number, "the head")), performance.now());
}
