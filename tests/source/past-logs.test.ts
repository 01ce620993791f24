/** Blocks of the past that touch given wallets: found in steps that grow, by two nodes, and never taken for read when they are not. */
import { afterEach, expect, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { type Chain, openChain } from "../../core/rpc/chain-client.ts";
import { toQuantity } from "../../core/rpc/parse-answers.ts";
import { parseHeader } from "../../indexer/source/block-header.ts";
import { readPast, TOPIC_VALUES_MAX } from "../../indexer/source/past-logs.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { randomAddress } from "../support/seed.ts";
import {
  type AskedCall,
  blockOf,
  type GivenLog,
  NETWORK,
  operationLog,
  type ScriptedNode,
  startScriptedNode,
  transferLog,
} from "./scripted-node.ts";

const [wallet, other, stranger] = [randomAddress(), randomAddress(), randomAddress()];
const [paid, sent] = [transferLog(stranger, wallet), transferLog(wallet, stranger)];

const nodes: ScriptedNode[] = [];
let chain: Chain | undefined;
afterEach(async () => {
  chain?.close();
  await Promise.all(nodes.splice(0).map((node) => node.stop()));
});

function startNodes(count: number, head: number, blocks: Record<number, GivenLog[]>): ScriptedNode[] {
  nodes.push(...Array.from({ length: count }, () => startScriptedNode(head, blocks)));
  return nodes;
}

type Walk = { ranges: [number, number][]; hits: number[]; found: [number, Hex, Hex][] };

type Asked = { from: number; to: number; addresses?: readonly Hex[]; anchor?: { number: number; hash: Hex } };

async function walk({ from, to, addresses = [wallet], anchor }: Asked, timeoutMs = 10_000): Promise<Walk> {
  chain = openChain({ network: NETWORK, urls: nodes.map(({ url }) => url), timeoutMs });
  const walked: Walk = { ranges: [], hits: [], found: [] };
  for await (const range of readPast(chain, { from, to, addresses, anchor })) {
    walked.ranges.push([range.from, range.to]);
    for (const { block, transfers } of range.blocks) {
      walked.hits.push(block.number);
      walked.found.push(...transfers.map((one): [number, Hex, Hex] => [block.number, one.from, one.to]));
    }
  }
  return walked;
}

const rangeOf = ({ method, params: [filter] }: AskedCall): number => {
  const { fromBlock, toBlock } = (filter ?? {}) as Record<string, string>;
  return method === "eth_getLogs" && fromBlock ? Number(toBlock) - Number(fromBlock) + 1 : 0;
};

test("error: no range is taken from a node that has another block above them than the one that was read", async () => {
  startNodes(1, 700, { 100: [paid] });
  const { number, hash } = parseHeader(await askHeader(650)) ?? { number: 0, hash: "0x" };
  expect((await walk({ from: 1, to: 600, anchor: { number, hash } })).hits).toEqual([100]);
  chain?.close();
  const other = { number, hash: `0x${"9e".repeat(32)}` as const };
  await expect(walk({ from: 1, to: 600, anchor: other })).rejects.toThrow("has another block 650");
});

const askHeader = (number: number) =>
  callRpc(nodes[0]?.url ?? "", "eth_getBlockByNumber", [toQuantity(number), false]);

test("past blocks are searched in steps that grow by half up to 2,000, without a gap, up to the last block", async () => {
  const blocks = { 500: [paid], 501: [sent], 900: [transferLog(stranger, other)], 6063: [paid] };
  startNodes(1, 6_063, { ...blocks, 2000: [operationLog(wallet)], 3000: [transferLog(other, wallet), sent] });
  const { ranges, hits, found } = await walk({ from: 1, to: 6_063 });
  expect(ranges).toEqual([
    ...([
      [1, 500],
      [501, 1_250],
      [1_251, 2_375],
    ] as [number, number][]),
    ...([
      [2_376, 4_062],
      [4_063, 6_062],
      [6_063, 6_063],
    ] as [number, number][]),
  ]);
  expect(hits).toEqual([500, 501, 2_000, 3_000, 6_063]);
  expect(found).toEqual([
    [500, stranger, wallet],
    [501, wallet, stranger],
    [3_000, other, wallet],
    [3_000, wallet, stranger],
    [6_063, stranger, wallet],
  ]);
});

test("a step that takes too long is split into smaller ones, and none is skipped", async () => {
  const [node] = startNodes(1, 300, { 1: [paid], 126: [paid], 300: [paid] });
  if (node) node.answer = (call) => (rangeOf(call) > 130 ? "hang" : undefined);
  const { ranges, hits } = await walk({ from: 1, to: 300 }, 500);
  expect(hits).toEqual([1, 126, 300]);
  expect(ranges.map(([from]) => from)).toEqual([1, ...ranges.slice(0, -1).map(([, to]) => to + 1)]);
  expect(ranges.at(-1)?.[1]).toBe(300);
  // and not block by block
  expect(ranges.length).toBeLessThan(150);
});

test("error: a node that answers nothing in time, down to one block, ends the search", async () => {
  const [node] = startNodes(1, 700, {});
  if (node) node.answer = () => "hang";
  await expect(walk({ from: 1, to: 700 }, 10)).rejects.toMatchObject({ kind: "timeout" });
});

test("error: failing nodes end the search immediately, with the reason; no range counts as without hits", async () => {
  const started = startNodes(2, 700, { 5: [paid] });
  for (const node of started) node.answer = (call) => (rangeOf(call) > 0 ? { status: 503 } : undefined);
  await expect(walk({ from: 1, to: 700 })).rejects.toThrow("HTTP 503");
  // once for each kind of log, and not again in smaller steps
  expect(started.map((node) => node.ranges().length)).toEqual([3, 3]);
});

test("a hit that one of two nodes omits is found by the other, and a third one is not asked", async () => {
  const [first, second, third] = startNodes(3, 20, { 5: [paid], 9: [paid] });
  const answerOnly = (node: ScriptedNode | undefined, number: number) => {
    if (node)
      node.answer = (call) => (rangeOf(call) > 0 ? { result: blockOf(number, [paid]).logs } : undefined);
  };
  answerOnly(first, 9);
  answerOnly(second, 5);
  expect((await walk({ from: 1, to: 20 })).hits).toEqual([5, 9]);
  expect([first, second].map((node) => (node?.count("eth_getLogs") ?? 0) > 0)).toEqual([true, true]);
  expect(third?.count("eth_getLogs")).toBe(0);
});

test("the hits of one node count while the other fails", async () => {
  const [first] = startNodes(2, 20, { 5: [paid] });
  if (first) first.answer = () => ({ status: 503 });
  expect((await walk({ from: 1, to: 20 })).hits).toEqual([5]);
});

test("wallets are searched for by the thousand: incoming, outgoing, and as senders of operations", async () => {
  const [node] = startNodes(1, 20, { 5: [paid] });
  const addresses = Array.from({ length: TOPIC_VALUES_MAX - 1 }, randomAddress);
  expect((await walk({ from: 1, to: 20, addresses: [...addresses, wallet] })).hits).toEqual([5]);
  expect(node?.ranges().length).toBe(3);
  chain?.close();
  if (node) node.calls.length = 0;
  const more = [...addresses, stranger, other];
  expect((await walk({ from: 1, to: 20, addresses: more })).hits).toEqual([5]);
  expect(node?.ranges().length).toBe(6);
  // go-ethereum refuses a topic position with more
  const sizes = node?.calls.flatMap(({ method, params: [filter] }) =>
    method === "eth_getLogs"
      ? (filter as { topics: unknown[] }).topics.map((topic) => [topic].flat().length)
      : [],
  );
  expect(Math.max(...(sizes ?? []))).toBe(1_000);
});

test("error: a hit in a block that the node does not have is not skipped", async () => {
  const [node] = startNodes(1, 20, { 5: [paid] });
  if (node)
    node.answer = ({ method, params: [number] }) =>
      method === "eth_getBlockByNumber" && number === "0x5" ? { result: null } : undefined;
  await expect(walk({ from: 1, to: 20 })).rejects.toThrow("does not know block 5");
});
