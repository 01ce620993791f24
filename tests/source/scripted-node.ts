/** A node of a chain that a test writes down: what its blocks hold, what it is asked for, and what it answers instead. */
import { bloomOf, topicOfAddress } from "../../core/chain/bloom.ts";
import { receiptsRootOf } from "../../core/chain/receipts-root.ts";
import { AUTHORIZATION_USED_TOPIC, TRANSFER_TOPIC } from "../../core/chain/usdc.ts";
import { USER_OPERATION_EVENT_TOPIC } from "../../core/chain/user-operation.ts";
import { CONTRACTS, type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { type BlockHeader, parseHeader } from "../../indexer/source/block-header.ts";

export const NETWORK = "base-sepolia";
export const USDC = NETWORKS[NETWORK].usdc.address;

export type GivenLog = { address: Hex; topics: readonly Hex[]; data: Hex };
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

const hashOf = (number: number): Hex => `0xb1${number.toString(16).padStart(62, "0")}`;

/** One transaction a block, which wrote all its logs. */
export function blockOf(number: number, given: readonly GivenLog[]) {
  const place = { blockHash: hashOf(number), blockNumber: quantity(number), removed: false };
  const transactionHash: Hex = `0xc1${number.toString(16).padStart(62, "0")}`;
  const logs = given.map((log, index) => ({
    ...log,
    ...place,
    ...{ transactionHash, logIndex: quantity(index) },
  }));
  const logsBloom = bloomOf(given);
  const receipt = {
    type: "0x2",
    status: "0x1",
    cumulativeGasUsed: "0x5208",
    transactionHash,
    logsBloom,
    logs,
  };
  const receipts = logs.length === 0 ? [] : [receipt];
  const block = {
    ...{ number: quantity(number), hash: hashOf(number), parentHash: hashOf(number - 1), timestamp: "0x64" },
    ...{
      logsBloom,
      gasUsed: "0x5208",
      receiptsRoot: receiptsRootOf(receipts),
      transactions: receipts.map(() => transactionHash),
    },
  };
  return { block, logs, receipts };
}

export function headerOf(number: number, given: readonly GivenLog[]): BlockHeader {
  return parseHeader(blockOf(number, given).block) as BlockHeader;
}

/** Blocks 1 to `head`; those without an entry are empty. */
export function startScriptedNode(head: number, blocks: Readonly<Record<number, GivenLog[]>>): ScriptedNode {
  const at = (number: number) => blockOf(number, blocks[number] ?? []);
  /** Of a height or a hash: null beyond the head. */
  const find = (which: unknown) => {
    const text = String(which);
    const number = Number(text.length === 66 ? `0x${text.slice(4)}` : text);
    return number <= head ? at(number) : undefined;
  };

  function truth({ method, params }: AskedCall): unknown {
    const [first] = params;
    if (method === "eth_chainId") return quantity(NETWORKS[NETWORK].chainId);
    if (/^eth_getBlockBy(Number|Hash)$/.test(method)) return find(first)?.block ?? null;
    if (method === "eth_getBlockReceipts") return find(first)?.receipts ?? null;
    if (method === "eth_getTransactionReceipt") {
      const all = Object.keys(blocks).flatMap((number) => at(Number(number)).receipts);
      return all.find(({ transactionHash }) => transactionHash === first) ?? null;
    }
    if (method !== "eth_getLogs") throw new Error(`${method} is not scripted`);
    const { blockHash, fromBlock, toBlock, ...filter } = first as Record<string, string> & Filter;
    const asked = blockHash
      ? [find(blockHash)]
      : Object.keys(blocks).filter(
          (key) => Number(fromBlock) <= Number(key) && Number(key) <= Number(toBlock),
        );
    const found = asked.flatMap((one) => (typeof one === "string" ? at(Number(one)) : (one ?? [])));
    return found.flatMap(({ logs }) => logs.filter((log) => isAskedFor(log, filter)));
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
