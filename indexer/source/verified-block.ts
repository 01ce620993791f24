/**
 * All logs of one block, proven against its header. A log query has no proof of its own: a node that drops a log, or does not have
 * the block, answers like one that found nothing. Receipts do, by their root: all of a block's at once, or one transaction's at a time.
 * Where a node has none by block, all logs of the block are the next best: the same in two answers, without a gap between their numbers,
 * and making the header's bloom (which a log of the same topics would too).
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

/** Over all nodes, before the block is left for a later poll. */
const ATTEMPTS = 6;
/** Of one transaction each in a request, if theirs is the block's mean of gas: a log costs 375 and is answered in 600 bytes. */
const GAS_A_REQUEST = 12_000_000;
const RECEIPTS_AT_ONCE = 50;
/** Bytes of encoded receipts, of which each has left some twenty behind in texts and objects. */
const collect = collectEvery(1_000_000);

/** Which logs are kept once they are proven. */
type IsKept = (log: PlacedLog) => boolean;
const keepAll: IsKept = () => true;

/** What is kept of a list of receipts: others chose how many logs they have. */
export type ReadReceipts = { root: Hex; logs: PlacedLog[] } | { error: RpcTransportError };

/** By height where its header is asked for at the same time. */
export function receiptsCall(block: Pick<BlockHeader, "hash"> | number, isKept = keepAll): RpcCall {
  const params = [typeof block === "number" ? toQuantity(block) : block.hash];
  return { method: "eth_getBlockReceipts", params, read: (answer) => readReceipts(answer, isKept) };
}

export function readReceipts(answer: unknown, isKept = keepAll): ReadReceipts {
  if (!Array.isArray(answer) || !answer.every(hasLogs))
    return { error: malformed("no receipts were answered") };
  return orError(() => {
    // first: what is no log is refused by it
    const logs = parseNumbered(
      answer.flatMap((receipt) => fieldOf(receipt, "logs") as unknown[]),
      0,
    );
    return { root: receiptsRootOf(answer), logs: logs.filter(isKept) };
  });
}

/**
 * The logs of receipts, numbered from `first`, or from wherever the first one is. A root proves contents and order of logs, not the numbers
 * that a node gives them, by which they are booked: two alike under one number would count once, and put all that follow one too low.
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

/** What reads a call's result may not throw. */
function orError<Read>(read: () => Read): Read | { error: RpcTransportError } {
  try {
    return read();
  } catch (error) {
    if (error instanceof RpcTransportError) return { error };
    throw error;
  }
}

/** The logs that were kept of receipts. Throws RpcTransportError unless the receipts make the header's root. */
export function provenLogs(header: BlockHeader, read: ReadReceipts): PlacedLog[] {
  if ("error" in read) throw unproven(header, read.error.message);
  assertOfBlock(read.logs, header);
  if (read.root !== header.receiptsRoot) throw unproven(header, "the receipts do not make its root");
  return read.logs;
}

/** Undefined when the answer proves nothing. */
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

/** The outcomes of calls for receipts. Without a verdict for any, each is left to `readProvenLogs`, which asks for less at a time. */
export async function askForReceipts(chain: Chain, calls: readonly RpcCall[]): Promise<RpcOutcome[]> {
  if (calls.length === 0) return [];
  try {
    return await chain.batch(calls);
  } catch (error) {
    if (!isTooMuch(error)) throw error;
    return calls.map(() => ({ ok: false, error }));
  }
}

/** `each`: of the receipts that are asked for one by one, the first ones. Whichever node gave them, together they make the root or not. */
type Proof = { header: BlockHeader; isKept: IsKept; each: EachReceipt };
type EachReceipt = {
  plan: { hashes: readonly unknown[]; atOnce: number } | undefined;
  encoded: EncodedReceipt[];
  logs: PlacedLog[];
  logCount: number;
};
const noneYet = (): EachReceipt => ({ plan: undefined, encoded: [], logs: [], logCount: 0 });
type Way = (chain: Chain, node: ChainNode, proof: Proof) => Promise<PlacedLog[]>;

/** In the order in which a node is asked: the next way when it has answered the one before, and not with what proves the block. */
const WAYS: readonly [Way, ...Way[]] = [byReceipts, byBloom, byTransactionReceipts];
/** The last one asks for little at a time. */
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
  // some nodes have no receipts by block, some chains another receipt format: those are asked another way
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
      // a full block takes more requests than a provider allows at a time: only attempts that bring no receipt count
      if (each.encoded.length > receipts) {
        receipts = each.encoded.length;
        attempts = -1;
      }
      // it is the block that is large, whatever node answers
      if (isTooMuch(error)) minWay = SMALLEST_ANSWERS;
      else if (!(await waitForRateLimit(chain, error)))
        ways.set(node, hasAnswered(error) ? (way + 1) % WAYS.length : 0);
    }
  }
  throw lastError ?? unproven(header, "there is no node");
}

/** The logs that this outcome of `receiptsCall` proves, else those that are read in another way. */
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

/** The same from this node alone, every way once. */
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

/** Many calls for a full block, and none of them large. What came before a failure is kept. */
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
    // some nodes answer a batch until they have said so many bytes, and refuse the rest of it
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

/** What is not a part of the block makes the others worthless, since nobody knows which of them is wrong. */
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
  return first.logs;
}

/** An answer that was too large, or did not come in time, which a larger one does not either. */
function isTooMuch(error: unknown): error is RpcTransportError {
  return error instanceof RpcTransportError && (error.kind === "too-large" || error.kind === "timeout");
}

/** Not an unavailable node: it has no receipts by block, or such as do not make the root. */
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
