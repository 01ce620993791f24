/** Finds past blocks that touch given wallets: topic-filtered log queries over adaptive ranges, then each hit read whole and proven. */

import { topicOfAddress } from "../../core/chain/bloom.ts";
import { TRANSFER_TOPIC } from "../../core/chain/usdc.ts";
import { USER_OPERATION_EVENT_TOPIC } from "../../core/chain/user-operation.ts";
import { CONTRACTS, type Hex } from "../../core/domain/networks.ts";
import type { Chain } from "../../core/rpc/chain-client.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import type { ChainNode } from "../../core/rpc/node.ts";
import type { BlockPoint } from "../../db/ledger/cursors.ts";
import { headerCall, need, parseHeader } from "./block-header.ts";
import { type BlockContent, decodeBlock, isFollowedBy, selectFollowedLogs } from "./decode-logs.ts";
import { type LogFilter, readRangeLogs } from "./range-logs.ts";
import { readProvenLogs } from "./verified-block.ts";

/** go-ethereum accepts at most this many values per topic position. */
export const TOPIC_VALUES_MAX = 1_000;
const BLOCKS_FIRST = 500;
const BLOCKS_MAX = 2_000;
const WITNESSES = 2;

/** `anchor`: the stored block at or next above `to`, if there is one. A node that has another block there answers from a replaced branch. */
type Past = { from: number; to: number; addresses: readonly Hex[]; anchor?: BlockPoint | undefined };

/** Walks from `from` to `to` and yields, for each range, the blocks that touch one of these wallets, in order. */
export async function* readPast(
  chain: Chain,
  { from, to, addresses, anchor }: Past,
): AsyncGenerator<{ from: number; to: number; blocks: BlockContent[] }> {
  const wanted = new Set(addresses);
  let size = BLOCKS_FIRST;
  for (let start = from; start <= to; ) {
    const end = Math.min(to, start + size - 1);
    try {
      const numbers = await findHits(chain, { from: start, to: end, addresses, anchor });
      const blocks = await readHits(chain, numbers, (address) => wanted.has(address));
      yield { from: start, to: end, blocks };
      start = end + 1;
      size = Math.min(BLOCKS_MAX, size + (size >> 1));
    } catch (error) {
      // queries already have the sizes that nodes accept; a range that takes too long overall is reduced
      const isSlow = error instanceof RpcTransportError && error.kind === "timeout";
      if (!isSlow || size === 1) throw error;
      size = Math.max(1, size >> 1);
    }
  }
}

/** The union of several nodes' results: a hit that one omits is found by another. */
async function findHits(chain: Chain, range: Past): Promise<number[]> {
  const nodes = chain.nodesByHealth().slice(0, WITNESSES);
  const answers = await Promise.allSettled(nodes.map((node) => findHitsOn(chain, node, range)));
  const found = answers.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value] : []));
  const failed = answers.find((answer) => answer.status === "rejected");
  if (found.length === 0) throw failed?.reason ?? new RpcTransportError("closed", "there is no node");
  return [...new Set(found.flat())].sort((a, b) => a - b);
}

async function findHitsOn(
  chain: Chain,
  node: ChainNode,
  { from, to, addresses, anchor }: Past,
): Promise<number[]> {
  const { address } = chain.network.usdc;
  const filters: LogFilter[] = [];
  for (let start = 0; start < addresses.length; start += TOPIC_VALUES_MAX) {
    const topics = addresses.slice(start, start + TOPIC_VALUES_MAX).map(topicOfAddress);
    filters.push({ address, topics: [TRANSFER_TOPIC, topics] });
    filters.push({ address, topics: [TRANSFER_TOPIC, null, topics] });
    filters.push({ address: CONTRACTS.entryPointV06, topics: [USER_OPERATION_EVENT_TOPIC, null, topics] });
  }
  // in the same request as the logs, because the next one may reach another node behind the same address
  const headerCalls = [...(anchor ? [headerCall(anchor.number)] : []), headerCall(to)];
  const { logs, headers } = await readRangeLogs(chain, node, { from, to }, { filters, headerCalls });
  if (anchor && parseHeader(need(headers[0]))?.hash !== anchor.hash)
    throw new RpcTransportError(
      "not-ready",
      `${node.label} has another block ${anchor.number} than ${anchor.hash}, which was read`,
    );
  return logs.map((log) => log.blockNumber);
}

async function readHits(
  chain: Chain,
  numbers: readonly number[],
  isWatched: (address: Hex) => boolean,
): Promise<BlockContent[]> {
  if (numbers.length === 0) return [];
  const outcomes = await chain.batch(numbers.map(headerCall));
  const blocks: BlockContent[] = [];
  for (const [index, outcome] of outcomes.entries()) {
    const header = parseHeader(need(outcome));
    if (!header) throw new RpcTransportError("not-ready", `the node does not know block ${numbers[index]}`);
    const { address } = chain.network.usdc;
    const proven = await readProvenLogs(chain, header, isFollowedBy(address, isWatched));
    const logs = selectFollowedLogs(proven, address);
    blocks.push(decodeBlock(header, logs, isWatched));
  }
  return blocks;
}
