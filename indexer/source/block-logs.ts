/**
 * USDC logs of whole blocks, read in the cheapest trustworthy way. The header's bloom first shows what a block can contain: nothing
 * relevant (no request), possibly one of our wallets (receipts, proven by their root), or other USDC logs (logs by block hash). Near the
 * head, whatever turns out to touch a wallet is proven before it counts.
 */

import {
  type BloomBits,
  bloomBitsOf,
  densityOf,
  mayContain,
  topicOfAddress,
} from "../../core/chain/bloom.ts";
import { USER_OPERATION_EVENT_TOPIC } from "../../core/chain/user-operation.ts";
import { CONTRACTS, type Hex } from "../../core/domain/networks.ts";
import type { Chain } from "../../core/rpc/chain-client.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import type { RpcCall, RpcOutcome } from "../../core/rpc/node.ts";
import { assertChained, type BlockHeader, headerCall, need, parseHeader } from "./block-header.ts";
import {
  assertOfBlock,
  type BlockContent,
  decodeBlock,
  followedLogs,
  hasLoneAuthorization,
  isFollowedBy,
  isOurs,
  type PlacedLog,
  parseLogs,
  selectFollowedLogs,
  USDC_TOPICS,
} from "./decode-logs.ts";
import { readRangeLogs } from "./range-logs.ts";
import { askForReceipts, provenLogsOrRead, readProvenLogs, receiptsCall } from "./verified-block.ts";

/** With more wallets, or a fuller bloom, matches are mostly accidental, so the bloom is not checked for wallets. */
const BLOOM_WALLETS_MAX = 5_000;
const BLOOM_CHANCE_MAX = 0.05;
/** Far below the head, at most this many blocks of a range are proven; proving more would cost as much as reading them all by receipts. */
const PROVEN_FAR_MAX = 32;

/** Whose transfers are wanted. `bits` are the bloom bits of every wallet, while they are few. */
export type Watch = {
  isWatched: (address: Hex) => boolean;
  size: number;
  bits: () => Iterable<BloomBits>;
  /** Whether live payments are waiting, for which authorizations used elsewhere or cancelled also matter. */
  wantsAuthorizations: boolean;
};

/** NOTHING: the bloom rules out what matters. LOGS: USDC of others, as far as the bloom shows. OURS: a wallet of ours may be in it. */
type Hint = "NOTHING" | "LOGS" | "OURS";

/** Reads blocks near the head by their hashes, because a node that lacks a block then reports that instead of returning no logs. */
export async function readBlocks(
  chain: Chain,
  headers: readonly BlockHeader[],
  watch: Watch,
): Promise<BlockContent[]> {
  const { address } = chain.network.usdc;
  const plans = headers.map((header) => {
    const hint = hintOf(header, address, watch);
    return { header, hint, calls: callsFor(header, hint, { address, watch }) };
  });
  const outcomes = await askForReceipts(
    chain,
    plans.flatMap((plan) => plan.calls),
  );
  let at = 0;
  return Promise.all(
    plans.map(({ header, hint, calls: own }) => {
      const answers = outcomes.slice(at, at + own.length);
      at += own.length;
      return readNearBlock(chain, header, { hint, answers }, watch);
    }),
  );
}

function callsFor(
  header: BlockHeader,
  hint: Hint,
  { address, watch }: { address: Hex; watch: Watch },
): RpcCall[] {
  switch (hint) {
    case "NOTHING":
      return [];
    case "OURS":
      return [receiptsCall(header, isFollowedBy(address, watch.isWatched))];
    case "LOGS":
      return [{ method: "eth_getLogs", params: [{ blockHash: header.hash, ...followedLogs(address) }] }];
  }
}

async function readNearBlock(
  chain: Chain,
  header: BlockHeader,
  { hint, answers }: { hint: Hint; answers: readonly RpcOutcome[] },
  watch: Watch,
): Promise<BlockContent> {
  const { address } = chain.network.usdc;
  const [answer] = answers;
  const isKept = isFollowedBy(address, watch.isWatched);
  const decode = (logs: readonly PlacedLog[]) =>
    decodeBlock(header, selectFollowedLogs(logs, address), watch.isWatched);
  if (hint === "NOTHING") return decode([]);
  if (hint === "OURS") return decode(await provenLogsOrRead(chain, header, answer, isKept));
  // refused for its size or any other reason: the block's receipts contain the same logs
  if (!answer?.ok) return decode(await readProvenLogs(chain, header, isKept));
  // a node that lacks the block may return no logs; those are proven below
  const logs = selectFollowedLogs(parseLogs(answer.result), address);
  assertOfBlock(logs, header);
  const content = decodeBlock(header, logs, watch.isWatched);
  const needsProof = logs.length === 0 || hasLoneAuthorization(logs) || isOurs(content);
  return needsProof ? decode(await readProvenLogs(chain, header, isKept)) : content;
}

/**
 * Reads a range far below the head: headers and logs of one node, which must agree with one another and with each block's bloom.
 * Contradictions are resolved by proof, and so are blocks that touch our wallets if there are few; every block is reread later (recheck-logs.ts).
 * `areOurs`: all of the blocks are expected to touch our wallets.
 */
export async function readRange(
  chain: Chain,
  { from, to }: { from: number; to: number },
  watch: Watch,
  { areOurs = false } = {},
): Promise<BlockContent[]> {
  const { address } = chain.network.usdc;
  const numbers = Array.from({ length: to - from + 1 }, (_, index) => from + index);
  if (areOurs && numbers.length <= PROVEN_FAR_MAX) return readByReceipts(chain, numbers, watch);
  const answer = await chain.withNode((node) =>
    readRangeLogs(
      chain,
      node,
      { from, to },
      {
        filters: [followedLogs(address)],
        headerCalls: numbers.map(headerCall),
      },
    ),
  );
  const headers = parseHeaders(numbers, answer.headers);
  const byBlock = new Map<number, PlacedLog[]>(numbers.map((number) => [number, []]));
  for (const log of answer.logs) byBlock.get(log.blockNumber)?.push(log);
  const contents = await Promise.all(
    headers.map((header) => readFarBlock(chain, header, byBlock.get(header.number) ?? [], watch)),
  );
  return proveFew(chain, contents, watch);
}

/** Blocks that would be proven anyway are read from their proof, without a log query. */
async function readByReceipts(
  chain: Chain,
  numbers: readonly number[],
  watch: Watch,
): Promise<BlockContent[]> {
  const { address } = chain.network.usdc;
  const isKept = isFollowedBy(address, watch.isWatched);
  const { headers, receipts } = await chain.withNode(async (node) => {
    const calls = [...numbers.map(headerCall), ...numbers.map((number) => receiptsCall(number, isKept))];
    const outcomes = await chain.batchOn(node, calls);
    const headers = parseHeaders(numbers, outcomes.slice(0, numbers.length));
    return { headers, receipts: outcomes.slice(numbers.length) };
  });
  return Promise.all(
    headers.map(async (header, index) => {
      const logs = await provenLogsOrRead(chain, header, receipts[index], isKept);
      return decodeBlock(header, selectFollowedLogs(logs, address), watch.isWatched);
    }),
  );
}

function parseHeaders(numbers: readonly number[], outcomes: readonly RpcOutcome[]): BlockHeader[] {
  const headers = numbers.map((number, index) => {
    const header = parseHeader(need(outcomes[index]));
    if (header && header.number === number) return header;
    throw new RpcTransportError("not-ready", `the node does not know block ${number}`);
  });
  assertChained(headers);
  return headers;
}

/** If few blocks of a range touch our wallets, they are proven as near the head. */
async function proveFew(
  chain: Chain,
  contents: readonly BlockContent[],
  watch: Watch,
): Promise<BlockContent[]> {
  const ours = contents.filter(isOurs).map(({ block }) => block);
  if (ours.length === 0 || ours.length > PROVEN_FAR_MAX) return [...contents];
  const { address } = chain.network.usdc;
  const isKept = isFollowedBy(address, watch.isWatched);
  const outcomes = await askForReceipts(
    chain,
    ours.map((header) => receiptsCall(header, isKept)),
  );
  const proven = await Promise.all(
    ours.map(async (header, index) => {
      const logs = await provenLogsOrRead(chain, header, outcomes[index], isKept);
      return decodeBlock(header, selectFollowedLogs(logs, address), watch.isWatched);
    }),
  );
  const byNumber = new Map(proven.map((content) => [content.block.number, content]));
  return contents.map((content) => byNumber.get(content.block.number) ?? content);
}

async function readFarBlock(
  chain: Chain,
  header: BlockHeader,
  answered: readonly PlacedLog[],
  watch: Watch,
): Promise<BlockContent> {
  assertOfBlock(answered, header);
  const { address } = chain.network.usdc;
  const logs = selectFollowedLogs(answered, address);
  const hint = hintOf(header, address, watch);
  const content = decodeBlock(header, logs, watch.isWatched);
  const isContradicted =
    hint === "NOTHING"
      ? isOurs(content)
      : logs.length === 0 || hasLoneAuthorization(logs) || (hint === "OURS" && !isOurs(content));
  if (!isContradicted) return content;
  return decodeBlock(
    header,
    selectFollowedLogs(await readProvenLogs(chain, header, isFollowedBy(address, watch.isWatched)), address),
    watch.isWatched,
  );
}

function hintOf({ bloom, isHashProven }: BlockHeader, usdc: Hex, watch: Watch): Hint {
  if (!isHashProven) return "LOGS";
  const mayHold = (address: Hex, topics: readonly Hex[]) =>
    mayContain(bloom, bitsOnce(address)) && topics.some((topic) => mayContain(bloom, bitsOnce(topic)));
  const mayHoldUsdc = mayHold(usdc, USDC_TOPICS);
  if (!mayHoldUsdc && !mayHold(CONTRACTS.entryPointV06, [USER_OPERATION_EVENT_TOPIC])) return "NOTHING";
  const isTelling = watch.size <= BLOOM_WALLETS_MAX && densityOf(bloom) ** 3 * watch.size <= BLOOM_CHANCE_MAX;
  if (!isTelling) return "LOGS";
  for (const bits of watch.bits()) if (mayContain(bloom, bits)) return "OURS";
  return watch.wantsAuthorizations && mayHoldUsdc ? "LOGS" : "NOTHING";
}

function bitsOnce(item: Hex): BloomBits {
  const known = knownBits.get(item);
  if (known) return known;
  const bits = bloomBitsOf(item);
  knownBits.set(item, bits);
  return bits;
}
/** Bloom bits of the token's address and topics, a handful per network. */
const knownBits = new Map<Hex, BloomBits>();

/** Bloom bits of wallets as indexed arguments. */
export function walletBits(addresses: Iterable<Hex>): BloomBits[] {
  return Array.from(addresses, (address) => bloomBitsOf(topicOfAddress(address)));
}
