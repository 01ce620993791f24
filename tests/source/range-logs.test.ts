/** Logs of a range from one node: in the sizes it takes, none twice and none left out, and never for blocks it does not have. */
import { afterEach, describe, expect, test } from "bun:test";
import { TRANSFER_TOPIC } from "../../core/chain/usdc.ts";
import { CONTRACTS } from "../../core/domain/networks.ts";
import { type Chain, openChain } from "../../core/rpc/chain-client.ts";
import type { ChainNode } from "../../core/rpc/node.ts";
import { headerCall } from "../../indexer/source/block-header.ts";
import { followedLogs } from "../../indexer/source/decode-logs.ts";
import { type LogFilter, readRangeLogs } from "../../indexer/source/range-logs.ts";
import { randomAddress } from "../support/seed.ts";
import {
  type AskedCall,
  authorizationLog,
  type GivenLog,
  NETWORK,
  operationLog,
  type ScriptedNode,
  startScriptedNode,
  transferLog,
  USDC,
} from "./scripted-node.ts";

const TOO_LARGE = { error: { code: -32600, message: "exceed maximum block range" } };
const REST = { error: { code: -32000, message: "rate limit exceeded" } };
const [payer, wallet] = [randomAddress(), randomAddress()];
const paid = transferLog(payer, wallet);
const topicOfNobody = `0x${"e".repeat(64)}`;

let node: ScriptedNode | undefined;
let chain: Chain | undefined;
afterEach(async () => {
  chain?.close();
  await node?.stop();
});

/** A chain of `head` blocks, these of them with a payment. */
function open(head: number, paidIn: readonly number[] | Record<number, GivenLog[]>) {
  const blocks = Array.isArray(paidIn)
    ? Object.fromEntries(paidIn.map((number) => [number, [paid]]))
    : paidIn;
  const running = startScriptedNode(head, blocks as Record<number, GivenLog[]>);
  const opened = openChain({ network: NETWORK, urls: [running.url], timeoutMs: 10_000 });
  [node, chain] = [running, opened];
  const [asked] = opened.nodes as readonly [ChainNode];
  const read = async (from: number, to: number, filter: LogFilter = followedLogs(USDC)) => {
    const given = { filters: [filter], headerCalls: [headerCall(to)] };
    const { logs } = await readRangeLogs(opened, asked, { from, to }, given);
    return logs.map(({ blockNumber }) => blockNumber).sort((a, b) => a - b);
  };
  return { node: running, limit: asked.health.logBlocks, read };
}

const blocksIn = ({ method, params: [filter] }: AskedCall): number => {
  const { fromBlock, toBlock } = (filter ?? {}) as Record<string, string>;
  return method === "eth_getLogs" && fromBlock ? Number(toBlock) - Number(fromBlock) + 1 : 0;
};
const isByHash = ({ method, params: [filter] }: AskedCall) =>
  method === "eth_getLogs" && (filter as { blockHash?: string }).blockHash !== undefined;

describe("a range", () => {
  const edges = [1, 500, 501, 1_000, 1_001, 1_200];

  test("is requested in pieces of the node's size, and the next range in larger pieces", async () => {
    const { node, read } = open(1_200, edges);
    expect(await read(1, 1_200)).toEqual(edges);
    expect(node.ranges()).toEqual([
      [1, 500],
      [501, 1_000],
      [1_001, 1_200],
    ]);
    node.calls.length = 0;
    expect(await read(1, 1_200)).toEqual(edges);
    expect(node.ranges()).toEqual([
      [1, 1_000],
      [1_001, 1_200],
    ]);
  });

  test("whose pieces are refused is requested in the size that the smallest refusal allows", async () => {
    const { node, read } = open(1_200, edges);
    node.answer = (call) => (blocksIn(call) > 100 ? TOO_LARGE : undefined);
    expect(await read(1, 1_200)).toEqual(edges);
    const [first, later] = [node.ranges().slice(0, 3), node.ranges().slice(3)];
    expect(first.map(([from, to]) => to - from + 1)).toEqual([500, 500, 200]);
    expect(later).toEqual(Array.from({ length: 12 }, (_, n) => [n * 100 + 1, n * 100 + 100]));
  });

  test("of more pieces than a request takes is read completely, even if only the last piece is refused", async () => {
    const { node, limit, read } = open(502, [1, 500, 501, 502]);
    limit.size = 2;
    node.answer = (call) => {
      const from = (call.params[0] as { fromBlock?: string } | null)?.fromBlock;
      return Number(from) === 501 && blocksIn(call) === 2 ? { status: 413 } : undefined;
    };
    expect(await read(1, 502)).toEqual([1, 500, 501, 502]);
    // 250 pieces, the last one, and its halves
    expect(node.ranges().length).toBe(253);
  });

  test("that is partly read when the only node asks for a pause is continued", async () => {
    const { node, limit, read } = open(502, [1, 502]);
    limit.size = 2;
    let rests = 0;
    node.answer = (call) => {
      const from = (call.params[0] as { fromBlock?: string } | null)?.fromBlock;
      return Number(from) === 501 && rests++ === 0 ? { status: 429 } : undefined;
    };
    expect(await read(1, 502)).toEqual([1, 502]);
    expect([rests, node.ranges().length]).toEqual([2, 252]);
  });

  test("error: is not split into smaller pieces when a node asks for fewer requests, or fails", async () => {
    const { node, read } = open(500, [1]);
    node.answer = (call) => (blocksIn(call) > 0 ? REST : undefined);
    await expect(read(1, 500)).rejects.toMatchObject({ kind: "rate-limit" });
    expect(node.ranges().length).toBe(1);
    await chain?.close();
    await node.stop();
    const other = open(500, [1]);
    other.node.answer = () => ({ status: 503 });
    await expect(other.read(1, 500)).rejects.toThrow("HTTP 503");
  });
});

describe("the last block of a range", () => {
  const isHeader = ({ method }: AskedCall) => method === "eth_getBlockByNumber";

  test("error: that the node lacks, or refuses to answer: its logs are ignored", async () => {
    const { node, read } = open(9, [1]);
    await expect(read(1, 10)).rejects.toMatchObject({
      kind: "not-ready",
      message: expect.stringContaining("does not know block 10"),
    });
    node.answer = (call) =>
      isHeader(call) ? { error: { code: -32000, message: "execution reverted" } } : undefined;
    await expect(read(1, 9)).rejects.toMatchObject({ kind: "not-ready" });
    expect(await open(9, [1]).read(1, 9)).toEqual([1]);
  });

  test("error: for which the node has no answer: that is reported as the reason", async () => {
    const { node, read } = open(9, [1]);
    node.answer = (call) => (isHeader(call) ? { error: { code: -32603, message: "internal" } } : undefined);
    await expect(read(1, 9)).rejects.toMatchObject({
      kind: "node-error",
      message: expect.stringContaining("internal"),
    });
  });
});

describe("a node that accepts no range at all", () => {
  /** The first is asked for with the range, the second when its block is read alone. */
  const refuseRanges = (call: AskedCall) => (blocksIn(call) > 0 ? TOO_LARGE : undefined);

  test("is asked for each block by its hash", async () => {
    const { node, read } = open(11, [2, 10, 11]);
    node.answer = refuseRanges;
    expect(await read(2, 11)).toEqual([2, 10, 11]);
    expect(node.calls.filter(isByHash).length).toBe(10);
    expect(node.count("eth_getBlockReceipts")).toBe(0);
  });

  test("and no log query is asked for receipts, of which only the matching logs are used", async () => {
    const other = randomAddress();
    const elsewhere = { ...transferLog(payer, wallet), address: other };
    const logs = [paid, elsewhere, transferLog(wallet, payer), authorizationLog(payer), operationLog(wallet)];
    const topics = paid.topics;
    const [, ofPayer = "", ofWallet = ""] = topics;
    const cases: [filter: LogFilter, count: number][] = [
      [{ topics: [] }, 5],
      [{ address: USDC, topics: [] }, 3],
      [{ address: [USDC, CONTRACTS.entryPointV06], topics: [] }, 4],
      [{ topics: [TRANSFER_TOPIC] }, 3],
      [{ address: USDC, topics: [TRANSFER_TOPIC, [ofPayer, topicOfNobody]] }, 1],
      [{ address: USDC, topics: [TRANSFER_TOPIC, null, ofWallet] }, 1],
      [{ address: USDC, topics: [TRANSFER_TOPIC, [topicOfNobody], [ofWallet]] }, 0],
      // the fourth topic is the operation's alone
      [{ topics: [null, null, null, [`0x${"0".repeat(64)}`]] }, 1],
      [{ topics: [null, null, null, null] }, 5],
      [followedLogs(USDC), 4],
    ];
    const { node, read } = open(4, { 3: logs });
    node.answer = (call) => refuseRanges(call) ?? (isByHash(call) ? TOO_LARGE : undefined);
    for (const [filter, count] of cases)
      expect([filter, await read(3, 3, filter)]).toEqual([filter, Array.from({ length: count }, () => 3)]);
  });

  test("error: and refuses everything else is not used for the range", async () => {
    const { node, read } = open(3, [3]);
    node.answer = (call) => (/getLogs|Receipt/.test(call.method) ? TOO_LARGE : undefined);
    await expect(read(3, 3)).rejects.toMatchObject({
      kind: "node-error",
      message: expect.stringContaining("maximum block range"),
    });
  });

  test("error: and no longer has the block, or fails: nothing is concluded", async () => {
    const { node, read } = open(3, [3]);
    let headers = 0;
    node.answer = (call) =>
      call.method === "eth_getBlockByNumber" && headers++ > 0 ? { result: null } : refuseRanges(call);
    await expect(read(3, 3)).rejects.toMatchObject({
      kind: "not-ready",
      message: expect.stringContaining("does not know block 3"),
    });
    const isReceipts = ({ method }: AskedCall) => /Receipt/.test(method);
    for (const [failsAt, isRefused] of [
      [isByHash, () => false],
      [isReceipts, isByHash],
    ] as const) {
      chain?.close();
      await node.stop();
      const again = open(3, [3]);
      again.node.answer = (call) =>
        isRefused(call) ? TOO_LARGE : failsAt(call) ? { status: 503 } : refuseRanges(call);
      await expect(again.read(3, 3)).rejects.toThrow("HTTP 503");
    }
  });
});
