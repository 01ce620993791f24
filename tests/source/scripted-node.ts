/** A node of a chain that a test writes down: what its blocks hold, what it is asked for, and what it answers instead. */
import { bloomOf, topicOfAddress } from "../../core/chain/bloom.ts";
import { hashHeader } from "../../core/chain/encode-header.ts";
import { receiptsRootOf } from "../../core/chain/receipts-root.ts";
import { AUTHORIZATION_USED_TOPIC, TRANSFER_TOPIC } from "../../core/chain/usdc.ts";
import { USER_OPERATION_EVENT_TOPIC } from "../../core/chain/user-operation.ts";
import { CONTRACTS, type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { type BlockHeader, parseHeader } from "../../indexer/source/block-header.ts";

export const NETWORK = "base-sepolia";
export const USDC = NETWORKS[NETWORK].usdc.address;

export type GivenLog = { address: Hex; topics: readonly Hex[]; data: Hex };
/** The logs of blocks; those without an entry are empty. */
type GivenBlocks = Readonly<Record<number, readonly GivenLog[]>>;
export type ScriptedBlock = ReturnType<typeof makeBlock>;
export type AskedCall = { id: number; method: string; params: unknown[] };
/** Undefined: as the chain is. A status is that of the whole HTTP answer; "hang" leaves the request without one. */
type Answer =
  | { result: unknown }
  | { error: { code: number; message: string } }
  | { status: number }
  | "hang";

export type ScriptedNode = {
  readonly url: string;
  /** Without the proof of its chain. */
  readonly calls: AskedCall[];
  answer: (call: AskedCall) => Answer | undefined;
  /** First and last block of each log query, in the order in which they were asked. */
  readonly ranges: () => [from: number, to: number][];
  readonly count: (method: string) => number;
  /** By height or hash, as in the parameters of a call. */
  readonly block: (which: unknown) => ScriptedBlock;
  readonly stop: () => Promise<void>;
};

const word = (value: number | bigint): Hex => `0x${value.toString(16).padStart(64, "0")}`;
const quantity = (value: number): Hex => `0x${value.toString(16)}`;

export function transferLog(from: Hex, to: Hex, units = 5n): GivenLog {
  return {
    ...{ address: USDC, data: word(units) },
    topics: [TRANSFER_TOPIC, topicOfAddress(from), topicOfAddress(to)],
  };
}

/** Used by itself: no transfer follows it. */
export function authorizationLog(payer: Hex): GivenLog {
  const topics: Hex[] = [AUTHORIZATION_USED_TOPIC, topicOfAddress(payer), word(7)];
  return { address: USDC, topics, data: "0x" };
}

export function operationLog(sender: Hex): GivenLog {
  const topics: Hex[] = [USER_OPERATION_EVENT_TOPIC, word(9), topicOfAddress(sender), word(0)];
  const data: Hex = `0x${[7n, 1n, 0n, 50_000n].map((value) => word(value).slice(2)).join("")}`;
  return { address: CONTRACTS.entryPointV06, topics, data };
}

/** These logs as a node answers them of this block, all of one transaction. */
export function logsIn({ block }: { block: { hash: Hex; number: Hex } }, given: readonly GivenLog[]) {
  const place = { blockHash: block.hash, blockNumber: block.number, removed: false };
  const transactionHash = transactionOf(Number(block.number));
  return given.map((log, index) => ({ ...log, ...place, transactionHash, logIndex: quantity(index) }));
}

const transactionOf = (number: number): Hex => `0xc1${number.toString(16).padStart(62, "0")}`;

/** One transaction a block, which wrote all its logs. */
function makeBlock(number: number, given: readonly GivenLog[], parentHash: Hex) {
  const [logsBloom, transactionHash] = [bloomOf(given), transactionOf(number)];
  const receipt = {
    ...{ type: "0x2", status: "0x1", cumulativeGasUsed: "0x5208" },
    ...{ transactionHash, logsBloom, logs: given },
  };
  const receiptsRoot = receiptsRootOf(given.length === 0 ? [] : [receipt]);
  const header = {
    ...{ number: quantity(number), parentHash, timestamp: "0x64" as Hex },
    ...{ logsBloom, gasUsed: "0x5208" as Hex, receiptsRoot },
  };
  const transactions = given.length === 0 ? [] : [transactionHash];
  const block = { ...header, hash: hashHeader(header), transactions };
  const logs = logsIn({ block }, given);
  return { block, logs, receipts: transactions.map(() => ({ ...receipt, logs })) };
}

/** From block 0, which is empty, to `head`. */
function makeChain(head: number, blocks: GivenBlocks): ScriptedBlock[] {
  const chain = [makeBlock(0, [], word(0))];
  for (let number = 1; number <= head; number++)
    chain.push(makeBlock(number, blocks[number] ?? [], chain[number - 1]?.block.hash ?? word(0)));
  return chain;
}

/** The block of this height, which holds these logs. `before`: what the earlier ones hold. */
export function blockOf(number: number, given: readonly GivenLog[], before: GivenBlocks = {}): ScriptedBlock {
  return makeChain(number, { ...before, [number]: given })[number] as ScriptedBlock;
}

export function headerOf(number: number, given: readonly GivenLog[], before: GivenBlocks = {}): BlockHeader {
  return parseHeader(blockOf(number, given, before).block) as BlockHeader;
}

/** Blocks 1 to `head`; those without an entry are empty. */
export function startScriptedNode(head: number, blocks: GivenBlocks): ScriptedNode {
  const chain = makeChain(head, blocks);
  const byHash = new Map(chain.map((one) => [String(one.block.hash), one]));
  /** Of a height or a hash: undefined beyond the head. */
  const find = (which: unknown) => byHash.get(String(which)) ?? chain[Number(which)];

  function truth({ method, params }: AskedCall): unknown {
    const [first] = params;
    if (method === "eth_chainId") return quantity(NETWORKS[NETWORK].chainId);
    if (/^eth_getBlockBy(Number|Hash)$/.test(method)) return find(first)?.block ?? null;
    if (method === "eth_getBlockReceipts") return find(first)?.receipts ?? null;
    if (method === "eth_getTransactionReceipt") {
      const all = chain.flatMap(({ receipts }) => receipts);
      return all.find(({ transactionHash }) => transactionHash === first) ?? null;
    }
    if (method !== "eth_getLogs") throw new Error(`${method} is not scripted`);
    const { blockHash, fromBlock, toBlock, ...filter } = first as Record<string, string> & Filter;
    const asked = blockHash
      ? [find(blockHash) ?? []].flat()
      : chain.slice(Number(fromBlock), Number(toBlock) + 1);
    return asked.flatMap(({ logs }) => logs.filter((log) => isAskedFor(log, filter)));
  }

  const server = Bun.serve({
    ...{ port: 0, hostname: "127.0.0.1", idleTimeout: 60 },
    async fetch(request) {
      const body = (await request.json()) as AskedCall | AskedCall[];
      const calls = [body].flat();
      node.calls.push(...calls.filter(({ method }) => method !== "eth_chainId"));
      const answers = calls.map((call) => ({ call, given: node.answer(call) ?? { result: truth(call) } }));
      if (answers.some(({ given }) => given === "hang")) return new Promise<Response>(() => {});
      const status = answers.flatMap(({ given }) =>
        typeof given === "object" && "status" in given ? given : [],
      );
      if (status[0]) return new Response("", { status: status[0].status, headers: { "retry-after": "0" } });
      const replies = answers.map(({ call: { id }, given }) => ({
        jsonrpc: "2.0",
        id,
        ...(given as object),
      }));
      return Response.json(Array.isArray(body) ? replies : replies[0]);
    },
  });
  const node: ScriptedNode = {
    url: `http://127.0.0.1:${server.port}`,
    calls: [],
    answer: () => undefined,
    ranges: () =>
      node.calls.flatMap(({ method, params: [filter] }): [number, number][] => {
        const { fromBlock, toBlock } = (filter ?? {}) as Record<string, string>;
        return method === "eth_getLogs" && fromBlock ? [[Number(fromBlock), Number(toBlock)]] : [];
      }),
    count: (method) => node.calls.filter((call) => call.method === method).length,
    block(which) {
      const found = find(which);
      if (found) return found;
      throw new RangeError(`the scripted chain has no block ${String(which)}`);
    },
    stop: () => server.stop(true),
  };
  return node;
}

type Filter = { address?: string | string[]; topics?: (string | string[] | null)[] };

/** As the JSON-RPC description of eth_getLogs has it. */
function isAskedFor(log: GivenLog, { address, topics = [] }: Filter): boolean {
  if (address && ![address].flat().includes(log.address)) return false;
  return topics.every(
    (wanted, index) => wanted === null || [wanted].flat().includes(log.topics[index] ?? ""),
  );
}
