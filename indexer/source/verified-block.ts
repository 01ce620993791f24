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
    const logs = parseLogs(answer.flatMap((receipt) => fieldOf(receipt, "logs") as unknown[])).filter(isKept);
    return { root: receiptsRootOf(answer), logs };
  });
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

type Proof = { header: BlockHeader; isKept: IsKept };
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
  for (let attempts = 0; attempts < ATTEMPTS; attempts++) {
    const nodes = chain.nodesByHealth();
    const node = nodes[attempts % nodes.length];
    if (!node) break;
    const way = Math.max(ways.get(node) ?? 0, minWay);
    try {
      return await (WAYS[way] ?? WAYS[0])(chain, node, { header, isKept });
    } catch (error) {
      if (!(error instanceof RpcTransportError || error instanceof RpcResponseError)) throw error;
      lastError = error;
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
  for (const way of WAYS) {
    try {
      return await way(chain, node, { header, isKept });
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

type ReadReceipt = { encoded: EncodedReceipt; logs: PlacedLog[] } | { error: RpcTransportError };

/** Many calls for a full block, and none of them large. */
async function byTransactionReceipts(
  chain: Chain,
  node: ChainNode,
  { header, isKept }: Proof,
): Promise<PlacedLog[]> {
  const block = await chain.requestOn(node, "eth_getBlockByHash", [header.hash, false]);
  const hashes = fieldOf(block, "transactions");
  if (!Array.isArray(hashes)) throw unproven(header, "its transactions were not answered");
  const gasUsed = Number(parseQuantity(fieldOf(block, "gasUsed"), "block gasUsed"));
  const perRequest = Math.floor((GAS_A_REQUEST * hashes.length) / Math.max(gasUsed, 1));
  const atOnce = Math.min(Math.max(perRequest, 1), RECEIPTS_AT_ONCE);
  const read = (receipt: unknown): ReadReceipt => {
    if (!hasLogs(receipt)) return { error: malformed("no receipts were answered") };
    return orError(() => {
      const logs = parseLogs(fieldOf(receipt, "logs")).filter(isKept);
      return { encoded: encodeReceipt(receipt), logs };
    });
  };
  const encoded: EncodedReceipt[] = [];
  const logs: PlacedLog[] = [];
  for (let start = 0; start < hashes.length; start += atOnce) {
    const calls = hashes
      .slice(start, start + atOnce)
      .map((hash) => ({ method: "eth_getTransactionReceipt", params: [hash], read }));
    for (const outcome of await chain.batchOn(node, calls, { inOrder: true })) {
      const receipt = need(outcome) as ReadReceipt;
      if ("error" in receipt) throw unproven(header, receipt.error.message);
      encoded.push(receipt.encoded);
      for (const log of receipt.logs) logs.push(log);
      collect(receipt.encoded.length);
    }
  }
  return provenLogs(header, { root: rootOfEncoded(encoded), logs });
}

type ReadLogs =
  | { logs: PlacedLog[]; count: number; isWhole: boolean; bloom: Hex }
  | { error: RpcTransportError };

async function byBloom(chain: Chain, node: ChainNode, { header, isKept }: Proof): Promise<PlacedLog[]> {
  const read = (answer: unknown): ReadLogs =>
    orError(() => {
      const logs = parseLogs(answer);
      const numbers = logs.map(({ logIndex }) => logIndex).sort((a, b) => a - b);
      const isWhole = numbers.every((number, index) => number === index);
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
