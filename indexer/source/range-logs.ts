/**
 * Logs of a range from one node, in queries of the size it accepts. A log query cannot revert, so any error means
 * "fewer blocks", down to a single one, which is then read by its hash, or by its receipts if that is refused too.
 */
import type { Hex } from "../../core/domain/networks.ts";
import { noteAccepted, noteRefused } from "../../core/rpc/adaptive-limit.ts";
import type { Chain } from "../../core/rpc/chain-client.ts";
import { isRefusal, type RpcError, RpcTransportError } from "../../core/rpc/errors.ts";
import type { ChainNode, RpcCall, RpcOutcome } from "../../core/rpc/node.ts";
import { toQuantity } from "../../core/rpc/parse-answers.ts";
import { headerCall, parseHeader } from "./block-header.ts";
import { type PlacedLog, parseLogs } from "./decode-logs.ts";
import { readProvenLogsOn } from "./verified-block.ts";
import { waitForRateLimit } from "./wait-for-rate-limit.ts";

/** Address and topics as in eth_getLogs; null means any topic. */
export type LogFilter = {
  /** Absent: every contract. */
  readonly address?: Hex | readonly Hex[];
  readonly topics: readonly (string | readonly string[] | null)[];
};
export type BlockRange = { readonly from: number; readonly to: number };
/** Queries per batch; with the headers of a range this stays below the client's batch limit. */
const QUERIES_MAX = 250;
/** Blocks read concurrently when a node accepts no ranges at all. */
const BLOCKS_AT_ONCE = 8;

type Query = BlockRange & { readonly filter: LogFilter };

/**
 * `headerCalls` are in the first batch and include the last block of the range, because a node that lacks that block must not answer for the
 * range. Throws RpcTransportError when the node can't answer for the whole range.
 */
export async function readRangeLogs(
  chain: Chain,
  node: ChainNode,
  range: BlockRange,
  { filters, headerCalls }: { filters: readonly LogFilter[]; headerCalls: readonly RpcCall[] },
): Promise<{ logs: PlacedLog[]; headers: RpcOutcome[] }> {
  const logs: PlacedLog[] = [];
  let headers: RpcOutcome[] | undefined;
  let open = filters.flatMap((filter) => split({ ...range, filter }, node.health.logBlocks.size));
  while (open.length > 0) {
    const calls = headers ? [] : headerCalls;
    const asked = open.slice(0, QUERIES_MAX);
    const outcomes = await askOrRefuse(chain, node, [...calls, ...asked.map(queryCall)]);
    headers ??= outcomes.slice(0, calls.length);
    assertKnown(headers, range, node);
    const read = await readOutcomes(chain, node, asked, outcomes.slice(calls.length));
    logs.push(...read.logs);
    const halves = read.refused.flatMap((query) =>
      split(query, Math.min(node.health.logBlocks.size, half(query))),
    );
    open = [...halves, ...open.slice(QUERIES_MAX)];
  }
  return { logs, headers: headers ?? [] };
}

/** A single refused call throws; for a log query that is one more refusal to adapt to. */
async function askOrRefuse(chain: Chain, node: ChainNode, calls: readonly RpcCall[]): Promise<RpcOutcome[]> {
  try {
    return await chain.batchOn(node, calls);
  } catch (error) {
    if (await waitForRateLimit(chain, error)) return chain.batchOn(node, calls);
    if (calls.length > 1 || !(error instanceof RpcTransportError && error.isRefusal)) throw error;
    return [{ ok: false, error }];
  }
}

async function readOutcomes(
  chain: Chain,
  node: ChainNode,
  queries: readonly Query[],
  outcomes: readonly RpcOutcome[],
): Promise<{ logs: PlacedLog[]; refused: Query[] }> {
  const limit = node.health.logBlocks;
  const logs: PlacedLog[] = [];
  const refused: Query[] = [];
  const alone: { query: Query; error: RpcError }[] = [];
  for (const [index, query] of queries.entries()) {
    const outcome = outcomes[index];
    if (outcome?.ok) {
      noteAccepted(limit, blocksOf(query), performance.now());
      logs.push(...parseLogs(outcome.result));
      continue;
    }
    const error = outcome?.error ?? new RpcTransportError("malformed", `${node.label} left out an answer`);
    if (!isRefusal(error)) throw error;
    noteRefused(limit, blocksOf(query), performance.now());
    if (blocksOf(query) > 1) refused.push(query);
    else alone.push({ query, error });
  }
  for (let start = 0; start < alone.length; start += BLOCKS_AT_ONCE) {
    const blocks = alone.slice(start, start + BLOCKS_AT_ONCE);
    const read = blocks.map(({ query, error }) => readOneBlock(chain, node, query, error));
    logs.push(...(await Promise.all(read)).flat());
  }
  return { logs, refused };
}

/** By hash, which is not a range; else everything in the block, filtered here. */
async function readOneBlock(
  chain: Chain,
  node: ChainNode,
  { from, filter }: Query,
  refusal: RpcError,
): Promise<PlacedLog[]> {
  const { method, params } = headerCall(from);
  const header = parseHeader(await chain.requestOn(node, method, params));
  if (!header) throw new RpcTransportError("not-ready", `${node.label} does not know block ${from}`);
  try {
    return parseLogs(await chain.requestOn(node, "eth_getLogs", [{ blockHash: header.hash, ...filter }]));
  } catch (error) {
    if (!isRefusal(error)) throw error;
  }
  try {
    return await readProvenLogsOn(chain, node, header, (log) => isWanted(log, filter));
  } catch (error) {
    if (!isRefusal(error)) throw error;
    throw new RpcTransportError("node-error", refusal.message);
  }
}

function assertKnown(headers: readonly RpcOutcome[], { to }: BlockRange, node: ChainNode): void {
  const last = headers.at(-1);
  if (last && !last.ok && last.error instanceof RpcTransportError) throw last.error;
  if (last?.ok && last.result !== null) return;
  throw new RpcTransportError("not-ready", `${node.label} does not know block ${to}`);
}

function queryCall({ from, to, filter }: Query): RpcCall {
  const params = [{ fromBlock: toQuantity(from), toBlock: toQuantity(to), ...filter }];
  return { method: "eth_getLogs", params };
}

function split({ from, to, filter }: Query, blocks: number): Query[] {
  const pieces: Query[] = [];
  for (let start = from; start <= to; start += blocks)
    pieces.push({ from: start, to: Math.min(to, start + blocks - 1), filter });
  return pieces;
}

function blocksOf({ from, to }: BlockRange): number {
  return to - from + 1;
}

function half(range: BlockRange): number {
  return Math.max(1, blocksOf(range) >> 1);
}

function isWanted({ address, topics }: PlacedLog, filter: LogFilter): boolean {
  if (filter.address && ![filter.address].flat().includes(address.toLowerCase() as Hex)) return false;
  return filter.topics.every((wanted, index) => {
    const topic = topics[index];
    if (wanted === null) return true;
    return topic !== undefined && (typeof wanted === "string" ? topic === wanted : wanted.includes(topic));
  });
}
