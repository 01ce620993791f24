/**
 * All logs of one block, proven against its header. A log query has no proof of its own: a node that drops a log, or does not have
 * the block, answers like one that found nothing. Receipts do, by their root: all of a block's at once, or one transaction's at a time.
 * Where a node has none by block, all logs of the block are the next best: the same in two answers, without a gap between their numbers,
 * and making the header's bloom (which a log of the same topics would too).
 */

import { bloomOf } from "../../core/chain/bloom.ts";
import { receiptsRootOf } from "../../core/chain/receipts-root.ts";
import type { Chain } from "../../core/rpc/chain-client.ts";
import { RpcResponseError, RpcTransportError } from "../../core/rpc/errors.ts";
import type { ChainNode, RpcCall, RpcOutcome } from "../../core/rpc/node.ts";
import { fieldOf, toQuantity } from "../../core/rpc/parse-answers.ts";
import { type BlockHeader, need } from "./block-header.ts";
import { assertOfBlock, type PlacedLog, parseLogs } from "./decode-logs.ts";
import { waitForRateLimit } from "./wait-for-rate-limit.ts";

/** Over all nodes, before the block is left for a later poll. */
const ATTEMPTS = 6;

/** By height where its header is asked for at the same time. */
export function receiptsCall(block: Pick<BlockHeader, "hash"> | number): RpcCall {
  const params = [typeof block === "number" ? toQuantity(block) : block.hash];
  return { method: "eth_getBlockReceipts", params };
}

/** The logs in a receipts answer. Throws RpcTransportError unless the receipts make the header's root. */
export function provenLogs(header: BlockHeader, answer: unknown): PlacedLog[] {
  const isWhole = Array.isArray(answer) && answer.every((receipt) => Array.isArray(fieldOf(receipt, "logs")));
  if (!isWhole) throw unproven(header, "no receipts were answered");
  const logs = parseLogs(answer.flatMap((receipt) => fieldOf(receipt, "logs") as unknown[]));
  assertOfBlock(logs, header);
  if (receiptsRootOf(answer) !== header.receiptsRoot)
    throw unproven(header, "the receipts do not make its root");
  return logs;
}

/** Undefined when the answer proves nothing. */
export function provenLogsOrUndefined(
  header: BlockHeader,
  outcome: RpcOutcome | undefined,
): PlacedLog[] | undefined {
  if (!outcome?.ok) return undefined;
  try {
    return provenLogs(header, outcome.result);
  } catch (error) {
    if (error instanceof RpcTransportError) return undefined;
    throw error;
  }
}

type Way = (chain: Chain, node: ChainNode, header: BlockHeader) => Promise<PlacedLog[]>;

/** In the order in which a node is asked: the next way when it has answered the one before, and not with what proves the block. */
const WAYS: readonly [Way, ...Way[]] = [byReceipts, byBloom, byTransactionReceipts];

/** Asks one node after another until the logs are proven. Throws when none proves them: the block is not trusted then. */
export async function readProvenLogs(chain: Chain, header: BlockHeader): Promise<PlacedLog[]> {
  let lastError: unknown;
  // some nodes have no receipts by block, some chains another receipt format: those are asked another way
  const ways = new Map<ChainNode, number>();
  for (let attempts = 0; attempts < ATTEMPTS; attempts++) {
    const nodes = chain.nodesByHealth();
    const node = nodes[attempts % nodes.length];
    if (!node) break;
    const way = ways.get(node) ?? 0;
    try {
      return await (WAYS[way] ?? WAYS[0])(chain, node, header);
    } catch (error) {
      if (!(error instanceof RpcTransportError || error instanceof RpcResponseError)) throw error;
      lastError = error;
      if (!(await waitForRateLimit(chain, error)))
        ways.set(node, hasAnswered(error) ? (way + 1) % WAYS.length : 0);
    }
  }
  throw lastError ?? unproven(header, "there is no node");
}

/** The same from this node alone, every way once. */
export async function readProvenLogsOn(
  chain: Chain,
  node: ChainNode,
  header: BlockHeader,
): Promise<PlacedLog[]> {
  let lastError: unknown;
  for (const way of WAYS) {
    try {
      return await way(chain, node, header);
    } catch (error) {
      if (!hasAnswered(error)) throw error;
      lastError = error;
    }
  }
  throw lastError;
}

async function byReceipts(chain: Chain, node: ChainNode, header: BlockHeader): Promise<PlacedLog[]> {
  const { method, params } = receiptsCall(header);
  return provenLogs(header, await chain.requestOn(node, method, params));
}

/** Many calls for a full block, and none of them large. */
async function byTransactionReceipts(
  chain: Chain,
  node: ChainNode,
  header: BlockHeader,
): Promise<PlacedLog[]> {
  const block = await chain.requestOn(node, "eth_getBlockByHash", [header.hash, false]);
  const hashes = fieldOf(block, "transactions");
  if (!Array.isArray(hashes)) throw unproven(header, "its transactions were not answered");
  const outcomes = await chain.batchOn(
    node,
    hashes.map((hash) => ({ method: "eth_getTransactionReceipt", params: [hash] })),
  );
  return provenLogs(header, outcomes.map(need));
}

async function byBloom(chain: Chain, node: ChainNode, header: BlockHeader): Promise<PlacedLog[]> {
  const ask = async (whom: ChainNode) =>
    parseLogs(await chain.requestOn(whom, "eth_getLogs", [{ blockHash: header.hash }]));
  const other = chain.nodesByHealth().find((one) => one !== node) ?? node;
  const [logs, again] = [await ask(node), await ask(other)];
  assertOfBlock(logs, header);
  const numbers = logs.map(({ logIndex }) => logIndex).sort((a, b) => a - b);
  const isWhole = numbers.every((number, index) => number === index) && again.length === logs.length;
  if (!isWhole || bloomOf(logs) !== header.bloom) throw unproven(header, `${node.label} left out logs`);
  return logs;
}

/** Not an unavailable node: it has no receipts by block, or such as do not make the root. */
function hasAnswered(error: unknown): boolean {
  if (error instanceof RpcTransportError)
    return error instanceof UnprovenError || error.kind === "node-error" || error.isRefusal;
  return error instanceof RpcResponseError;
}

class UnprovenError extends RpcTransportError {}

function unproven(header: BlockHeader, why: string): UnprovenError {
  return new UnprovenError("malformed", `block ${header.number} ${header.hash}: ${why}`);
}
