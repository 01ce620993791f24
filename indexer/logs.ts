/**
 * USDC logs of whole blocks. An answer is believed only when its logs carry the block's own hash and the block's bloom does not
 * contradict it; in doubt all logs of the block are asked for, from one node after another, until they make that very bloom.
 */
import type { Chain } from "../core/chain/clients.ts";
import { toQuantity } from "../core/chain/rpc-answers.ts";
import { RpcTransportError } from "../core/chain/rpc-errors.ts";
import type { ChainNode, RpcCall } from "../core/chain/rpc-node.ts";
import type { Hex } from "../core/domain/networks.ts";
import {
  assertChained,
  type BlockHeader,
  headerByHashCall,
  headerCall,
  need,
  parseHeader,
} from "./block-header.ts";
import { type BloomBits, bloomBitsOf, bloomOf, densityOf, mayContain, topicOfAddress } from "./bloom.ts";
import {
  assertOfBlock,
  type BlockContent,
  decodeBlock,
  hasLoneAuthorization,
  type PlacedLog,
  parseLogs,
  selectUsdcLogs,
  USDC_TOPICS,
} from "./usdc-logs.ts";

/** Attempts to get a whole block, over all nodes. */
const WHOLE_BLOCK_TRIES = 6;
/** With more wallets, or a fuller bloom, "may contain" is mostly chance and asked no more. */
const BLOOM_WALLETS_MAX = 5_000;
const BLOOM_CHANCE_MAX = 0.05;

/** Whom we look for. `bits` are the bloom bits of every wallet, while they are few. */
export type Watch = {
  isWatched: (address: Hex) => boolean;
  size: number;
  bits: () => Iterable<readonly [Hex, BloomBits]>;
};

/** Reads blocks by their hashes: a node that does not have one says so instead of answering "no logs". */
export async function readBlocks(
  chain: Chain,
  headers: readonly BlockHeader[],
  watch: Watch,
): Promise<BlockContent[]> {
  const { address } = chain.network.usdc;
  const outcomes = await chain.batch(
    headers.flatMap(({ hash }): RpcCall[] => [
      headerByHashCall(hash),
      { method: "eth_getLogs", params: [{ blockHash: hash, address, topics: [USDC_TOPICS] }] },
    ]),
  );
  return Promise.all(
    headers.map((header, index) => {
      const told = parseHeader(need(outcomes[index * 2]));
      if (told?.hash !== header.hash)
        throw new RpcTransportError(
          "not-ready",
          `the node does not know block ${header.number} ${header.hash}`,
        );
      return toContent(chain, header, parseLogs(need(outcomes[index * 2 + 1])), watch);
    }),
  );
}

/** Reads a range far below the head: headers and logs in one batch, which must agree with one another. */
export async function readRange(
  chain: Chain,
  { from, to }: { from: number; to: number },
  watch: Watch,
): Promise<BlockContent[]> {
  const { address } = chain.network.usdc;
  const range = { fromBlock: toQuantity(from), toBlock: toQuantity(to), address, topics: [USDC_TOPICS] };
  const numbers = Array.from({ length: to - from + 1 }, (_, index) => from + index);
  const [logsOutcome, ...outcomes] = await chain.batch([
    { method: "eth_getLogs", params: [range] },
    ...numbers.map(headerCall),
  ]);
  const headers = outcomes.map((outcome, index) => {
    const header = parseHeader(need(outcome));
    if (header?.number === numbers[index] && header) return header;
    throw new RpcTransportError("not-ready", `the node does not know block ${numbers[index]}`);
  });
  assertChained(headers);
  const byBlock = new Map<number, PlacedLog[]>(numbers.map((number) => [number, []]));
  for (const log of parseLogs(need(logsOutcome))) byBlock.get(log.blockNumber)?.push(log);
  return Promise.all(
    headers.map((header) => toContent(chain, header, byBlock.get(header.number) ?? [], watch)),
  );
}

async function toContent(
  chain: Chain,
  header: BlockHeader,
  answered: readonly PlacedLog[],
  watch: Watch,
): Promise<BlockContent> {
  assertOfBlock(answered, header);
  const { address } = chain.network.usdc;
  const logs = selectUsdcLogs(answered, address);
  const sure = isDoubtful(header, logs, address, watch) ? await readWholeBlock(chain, header) : logs;
  return decodeBlock(header, sure, watch.isWatched);
}

function isDoubtful(header: BlockHeader, logs: readonly PlacedLog[], usdc: Hex, watch: Watch): boolean {
  const { bloom } = header;
  const mayHaveLogs =
    mayContain(bloom, bitsOnce(usdc)) && USDC_TOPICS.some((topic) => mayContain(bloom, bitsOnce(topic)));
  if (!mayHaveLogs) return logs.length > 0;
  if (logs.length === 0 || hasLoneAuthorization(logs)) return true;
  if (watch.size > BLOOM_WALLETS_MAX || densityOf(bloom) ** 3 * watch.size > BLOOM_CHANCE_MAX) return false;
  const named = new Set(logs.flatMap((log) => log.topics.slice(1)));
  for (const [topic, bits] of watch.bits()) if (mayContain(bloom, bits) && !named.has(topic)) return true;
  return false;
}

/** All USDC logs of a block, proven by its bloom. Throws when no node gives an answer that makes that bloom. */
async function readWholeBlock(chain: Chain, header: BlockHeader): Promise<PlacedLog[]> {
  let lastError: unknown;
  for (let tries = 0; tries < WHOLE_BLOCK_TRIES; tries++) {
    const nodes = chain.nodesByHealth();
    const node = nodes[tries % nodes.length];
    if (!node) break;
    try {
      return await readWholeBlockOn(chain, node, header);
    } catch (error) {
      if (!(error instanceof RpcTransportError)) throw error;
      lastError = error;
    }
  }
  throw new RpcTransportError(
    "malformed",
    `no node gives all logs of block ${header.number} ${header.hash}${lastError instanceof Error ? `: ${lastError.message}` : ""}`,
  );
}

async function readWholeBlockOn(chain: Chain, node: ChainNode, header: BlockHeader): Promise<PlacedLog[]> {
  const logs = parseLogs(await chain.requestOn(node, "eth_getLogs", [{ blockHash: header.hash }]));
  assertOfBlock(logs, header);
  if (bloomOf(logs) !== header.bloom)
    throw new RpcTransportError("malformed", `${node.label} left out logs of block ${header.number}`);
  return selectUsdcLogs(logs, chain.network.usdc.address);
}

function bitsOnce(item: Hex): BloomBits {
  const known = knownBits.get(item);
  if (known) return known;
  const bits = bloomBitsOf(item);
  knownBits.set(item, bits);
  return bits;
}
/** The token's address and topics: a handful a network. */
const knownBits = new Map<Hex, BloomBits>();

/** Bloom bits of wallets, computed once each. */
export function walletBits(addresses: Iterable<Hex>): (readonly [Hex, BloomBits])[] {
  return Array.from(addresses, (address) => {
    const topic = topicOfAddress(address);
    return [topic, bloomBitsOf(topic)] as const;
  });
}
