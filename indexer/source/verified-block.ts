/**
 * All logs of one block, proven against its header. A log query comes without a proof: a node that drops a log, or lacks
 * the block, responds like one that found nothing. Receipts are proven by their root: all of a block's at once, or one transaction's at a
 * time. If a node has no receipts by block, the next best is all logs of the block: identical in two responses, numbered without gaps, and
 * producing the header's bloom (which another log with the same topics would also do).
 */

import { bloomOf } from "../../core/chain/bloom.ts";
import {
  type EncodedReceipt,
  encodeReceipt,
  receiptsRootOf,
  rootOfEncoded,
} from "../../core/chain/receipts-root.ts";
import type { Hex } from "../../core/domain/networks.ts";
import type { Chain } from "../../core/rpc/chain-client.ts";
import { RpcResponseError, RpcTransportError } from "../../core/rpc/errors.ts";
import type { ChainNode, RpcCall, RpcOutcome } from "../../core/rpc/node.ts";
import { fieldOf, parseQuantity, toQuantity } from "../../core/rpc/parse-answers.ts";
import { collectEvery } from "../../core/runtime/collect-garbage.ts";
import { type BlockHeader, need } from "./block-header.ts";
import { assertOfBlock, type PlacedLog, parseLogs } from "./decode-logs.ts";
import { waitForRateLimit } from "./wait-for-rate-limit.ts";

/** Attempts over all nodes, before the block is left for a later poll. */
const ATTEMPTS = 6;
/** Receipts of single transactions per request, assuming mean gas: a log costs 375 gas and takes 600 bytes in the response. */
const GAS_A_REQUEST = 12_000_000;
const RECEIPTS_AT_ONCE = 50;
/** Encoded receipt bytes between garbage collections; each byte leaves about twenty behind in strings and objects. */
const collect = collectEvery(1_000_000);

/** Which of the proven logs are kept. */
type IsKept = (log: PlacedLog) => boolean;
const keepAll: IsKept = () => true;

/** What is kept of a list of receipts, whose number of logs third parties control. */
export type ReadReceipts = { root: Hex; logs: PlacedLog[] } | { error: RpcTransportError };

/** By height when its header is requested at the same time. */
export function receiptsCall(block: Pick<BlockHeader, "hash"> | number, isKept = keepAll): RpcCall {
  const params = [typeof block === "number" ? toQuantity(block) : block.hash];
  return { method: "eth_getBlockReceipts", params, read: (answer) => readReceipts(answer, isKept) };
}

export function readReceipts(answer: unknown, isKept = keepAll): ReadReceipts {
  if (!Array.isArray(answer) || !answer.every(hasLogs))
    return { error: malformed("no receipts were answered") };
  return orError(() => {
    // first, because it refuses malformed logs
    const logs = parseNumbered(
      answer.flatMap((receipt) => fieldOf(receipt, "logs") as unknown[]),
      0,
    );
    return { root: receiptsRootOf(answer), logs: logs.filter(isKept) };
  });
}

/**
 * The logs of receipts, numbered from `first`, or from the first log's own number. The root proves contents and order of logs, but not the log
 * indexes reported by the node, by which they are booked: two equal logs with the same index would count once, and shift all following ones down
 * by one.
 */
function parseNumbered(answer: readonly unknown[], first?: number): PlacedLog[] {
  const logs = parseLogs(answer);
  const start = first ?? logs[0]?.logIndex ?? 0;
  if (logs.length !== answer.length || !logs.every(({ logIndex }, index) => logIndex === start + index))
    throw malformed("the logs are not numbered through their block");
  return logs;
}

function hasLogs(receipt: unknown): boolean {
  return Array.isArray(fieldOf(receipt, "logs"));
}

/** Code that reads a call's result must not throw. */
function orError<Read>(read: () => Read): Read | { error: RpcTransportError } {
  try {
    return read();
  } catch (error) {
    if (error instanceof RpcTransportError) return { error };
    throw error;
  }
}

/** The kept logs of receipts. Throws RpcTransportError unless the receipts match the header's root. */
export function provenLogs(header: BlockHeader, read: ReadReceipts): PlacedLog[] {
  if ("error" in read) throw unproven(header, read.error.message);
  assertOfBlock(read.logs, header);
  if (read.root !== header.receiptsRoot) throw unproven(header, "the receipts do not make its root");
  return read.logs;
}

/** Undefined when the response proves nothing. */
export function provenLogsOrUndefined(
  header: BlockHeader,
  outcome: RpcOutcome | undefined,
): PlacedLog[] | undefined {
  if (!outcome?.ok) return undefined;
  try {
    return provenLogs(header, outcome.result as ReadReceipts);
  } catch (error) {
    if (error instanceof RpcTransportError) return undefined;
    throw error;
  }
}

/** The outcomes of calls for receipts. If all of them fail, each block is left to `readProvenLogs`, which requests less at a time. */
export async function askForReceipts(chain: Chain, calls: readonly RpcCall[]): Promise<RpcOutcome[]> {
  if (calls.length === 0) return [];
  try {
    return await chain.batch(calls);
  } catch (error) {
    if (!isTooMuch(error)) throw error;
    return calls.map(() => ({ ok: false, error }));
  }
}

/** `each`: the first receipts of those requested one by one. Whichever node returned them, together they either match the root or not. */
type Proof = { header: BlockHeader; isKept: IsKept; each: EachReceipt };
type EachReceipt = {
  plan: { hashes: readonly unknown[]; atOnce: number } | undefined;
  encoded: EncodedReceipt[];
  logs: PlacedLog[];
  logCount: number;
};
const noneYet = (): EachReceipt => ({ plan: undefined, encoded: [], logs: [], logCount: 0 });
type Way = (chain: Chain, node: ChainNode, proof: Proof) => Promise<PlacedLog[]>;

/** In the order in which they are tried on a node: the next method when the previous response does not prove the block. */
const WAYS: readonly [Way, ...Way[]] = [byReceipts, byBloom, byTransactionReceipts];
/** The last one requests little at a time. */
const SMALLEST_ANSWERS = WAYS.length - 1;

/** Asks one node after another until the logs are proven. Throws when none proves them: the block is not trusted then. */
export async function readProvenLogs(
  chain: Chain,
  header: BlockHeader,
  isKept = keepAll,
  firstWay = 0,
): Promise<PlacedLog[]> {
  let lastError: unknown;
  let minWay = firstWay;
  // some nodes have no receipts by block, and some chains use another receipt format: try another method
  const ways = new Map<ChainNode, number>();
  const each = noneYet();
  let receipts = 0;
  for (let attempts = 0; attempts < ATTEMPTS; attempts++) {
    const nodes = chain.nodesByHealth();
    const node = nodes[attempts % nodes.length];
    if (!node) break;
    const way = Math.max(ways.get(node) ?? 0, minWay);
    try {
      return await (WAYS[way] ?? WAYS[0])(chain, node, { header, isKept, each });
    } catch (error) {
      if (!(error instanceof RpcTransportError || error instanceof RpcResponseError)) throw error;
      lastError = error;
      // a full block takes more requests than a provider allows at a time, so only attempts that return no receipt count
      if (each.encoded.length > receipts) {
        receipts = each.encoded.length;
        attempts = -1;
      }
      // the block is large, whichever node responds
      if (isTooMuch(error)) minWay = SMALLEST_ANSWERS;
      else if (!(await waitForRateLimit(chain, error)))
        ways.set(node, hasAnswered(error) ? (way + 1) % WAYS.length : 0);
    }
  }
  throw lastError ?? unproven(header, "there is no node");
}

/** The logs proven by this outcome of `receiptsCall`, else those read by another method. */
export async function provenLogsOrRead(
  chain: Chain,
  header: BlockHeader,
  outcome: RpcOutcome | undefined,
  isKept: IsKept,
): Promise<PlacedLog[]> {
  const isLarge = outcome?.ok === false && isTooMuch(outcome.error);
  return (
    provenLogsOrUndefined(header, outcome) ??
    readProvenLogs(chain, header, isKept, isLarge ? SMALLEST_ANSWERS : 0)
  );
}

/** The same from this node only, trying every method once. */
export async function readProvenLogsOn(
  chain: Chain,
  node: ChainNode,
  header: BlockHeader,
  isKept = keepAll,
): Promise<PlacedLog[]> {
  let lastError: unknown;
  const each = noneYet();
  for (const way of WAYS) {
    try {
      return await way(chain, node, { header, isKept, each });
    } catch (error) {
      if (!hasAnswered(error)) throw error;
      lastError = error;
    }
  }
  throw lastError;
}

async function byReceipts(chain: Chain, node: ChainNode, { header, isKept }: Proof): Promise<PlacedLog[]> {
  const [outcome] = await chain.batchOn(node, [receiptsCall(header, isKept)]);
  return provenLogs(header, need(outcome) as ReadReceipts);
}

type ReadReceipt =
  | { encoded: EncodedReceipt; logs: PlacedLog[]; firstIndex: number | undefined; logCount: number }
  | { error: RpcTransportError };

/** Many small calls for a full block. Results before a failure are kept. */
async function byTransactionReceipts(
  chain: Chain,
  node: ChainNode,
  { header, isKept, each }: Proof,
): Promise<PlacedLog[]> {
  each.plan ??= await planReceipts(chain, node, header);
  const { hashes, atOnce } = each.plan;
  while (each.encoded.length < hashes.length) {
    const next = hashes.slice(each.encoded.length, each.encoded.length + atOnce);
    const calls = next.map((hash) => receiptCall(hash, isKept));
    const outcomes = await chain.batchOn(node, calls, { inOrder: true });
    need(outcomes[0]);
    // some nodes answer a batch up to a response size and refuse the rest
    const failed = outcomes.findIndex(({ ok }) => !ok);
    for (const outcome of failed < 0 ? outcomes : outcomes.slice(0, failed))
      addReceipt(each, need(outcome) as ReadReceipt, header);
  }
  const { encoded, logs } = each;
  Object.assign(each, noneYet());
  return provenLogs(header, { root: rootOfEncoded(encoded), logs });
}

async function planReceipts(chain: Chain, node: ChainNode, header: BlockHeader) {
  const block = await chain.requestOn(node, "eth_getBlockByHash", [header.hash, false]);
  const hashes = fieldOf(block, "transactions");
  if (!Array.isArray(hashes)) throw unproven(header, "its transactions were not answered");
  const gasUsed = Number(parseQuantity(fieldOf(block, "gasUsed"), "block gasUsed"));
  const perRequest = Math.floor((GAS_A_REQUEST * hashes.length) / Math.max(gasUsed, 1));
  return { hashes, atOnce: Math.min(Math.max(perRequest, 1), RECEIPTS_AT_ONCE) };
}

function receiptCall(hash: unknown, isKept: IsKept): RpcCall {
  const read = (receipt: unknown): ReadReceipt => {
    if (!hasLogs(receipt)) return { error: malformed("no receipts were answered") };
    return orError(() => {
      const logs = parseNumbered(fieldOf(receipt, "logs") as unknown[]);
      const firstIndex = logs[0]?.logIndex;
      if (logs.some(({ txHash }) => txHash !== hash))
        throw malformed("another transaction's logs were answered");
      const kept = logs.filter(isKept);
      return { encoded: encodeReceipt(receipt), logs: kept, firstIndex, logCount: logs.length };
    });
  };
  return { method: "eth_getTransactionReceipt", params: [hash], read };
}

/** If one is not part of the block, all are discarded, since it is unknown which of them is wrong. */
function addReceipt(each: EachReceipt, receipt: ReadReceipt, header: BlockHeader): void {
  const isMisplaced = !("error" in receipt) && (receipt.firstIndex ?? each.logCount) !== each.logCount;
  if ("error" in receipt || isMisplaced) {
    Object.assign(each, noneYet());
    throw unproven(
      header,
      "error" in receipt ? receipt.error.message : "a receipt's logs are numbered otherwise",
    );
  }
  each.encoded.push(receipt.encoded);
  for (const log of receipt.logs) each.logs.push(log);
  each.logCount += receipt.logCount;
  collect(receipt.encoded.length);
}

type ReadLogs =
  | { logs: PlacedLog[]; count: number; isWhole: boolean; bloom: Hex }
  | { error: RpcTransportError };

async function byBloom(chain: Chain, node: ChainNode, { header, isKept }: Proof): Promise<PlacedLog[]> {
  const read = (answer: unknown): ReadLogs =>
    orError(() => {
      const logs = parseLogs(answer);
      const numbers = logs.map(({ logIndex }) => logIndex).sort((a, b) => a - b);
      const isWhole =
        numbers.length === (answer as unknown[]).length && numbers.every((number, index) => number === index);
      return { logs: logs.filter(isKept), count: logs.length, isWhole, bloom: bloomOf(logs) };
    });
  const ask = async (whom: ChainNode) => {
    const call = { method: "eth_getLogs", params: [{ blockHash: header.hash }], read };
    const [outcome] = await chain.batchOn(whom, [call]);
    const answer = need(outcome) as ReadLogs;
    if ("error" in answer) throw answer.error;
    return answer;
  };
  const other = chain.nodesByHealth().find((one) => one !== node) ?? node;
  const [first, again] = [await ask(node), await ask(other)];
  assertOfBlock(first.logs, header);
  if (!first.isWhole || again.count !== first.count || first.bloom !== header.bloom)
    throw unproven(header, `${node.label} left out logs`);
  // an empty bloom would prove an answer without logs
  if (first.count === 0 && !header.isHashProven) throw unproven(header, "its header does not make its hash");
  return first.logs;
}

/** The response was too large or timed out, and a larger one would too. */
function isTooMuch(error: unknown): error is RpcTransportError {
  return error instanceof RpcTransportError && (error.kind === "too-large" || error.kind === "timeout");
}

/** Not an unavailable node: it has no receipts by block, or they do not match the root. */
function hasAnswered(error: unknown): boolean {
  if (error instanceof RpcTransportError)
    return error instanceof UnprovenError || error.kind === "node-error" || error.isRefusal;
  return error instanceof RpcResponseError;
}

class UnprovenError extends RpcTransportError {}

function malformed(message: string): RpcTransportError {
  return new RpcTransportError("malformed", message);
}

function unproven(header: BlockHeader, why: string): UnprovenError {
  return new UnprovenError("malformed", `block ${header.number} ${header.hash}: ${why}`);
}
