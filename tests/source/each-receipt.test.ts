/** A block's receipts asked for one transaction at a time: what a provider limits, and what a node may get wrong. */
import { afterEach, describe, expect, test } from "bun:test";
import { bloomOf } from "../../core/chain/bloom.ts";
import { hashHeader } from "../../core/chain/encode-header.ts";
import { receiptsRootOf } from "../../core/chain/receipts-root.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { type Chain, openChain } from "../../core/rpc/chain-client.ts";
import { type BlockHeader, parseHeader } from "../../indexer/source/block-header.ts";
import { parseLogs } from "../../indexer/source/decode-logs.ts";
import { readProvenLogs, readReceipts } from "../../indexer/source/verified-block.ts";
import { randomHash } from "../support/ledger-lab.ts";
import { randomAddress } from "../support/seed.ts";
import {
  type AskedCall,
  NETWORK,
  type ScriptedNode,
  startScriptedNode,
  transferLog,
} from "./scripted-node.ts";

const TRANSACTIONS = 8;
const ONE_RECEIPT = "eth_getTransactionReceipt";
const quantity = (value: number): Hex => `0x${value.toString(16)}`;

type WireLog = ReturnType<typeof transferLog> & {
  transactionHash: Hex;
  logIndex: Hex;
  blockHash: Hex;
  blockNumber: Hex;
};
type WireReceipt = { transactionHash: Hex; logs: WireLog[] };

/** Two logs of each transaction. `gasUsed`: how many receipts are asked for in a request depends on it. */
function makeBlock(gasUsed: number) {
  const given = transferLog(randomAddress(), randomAddress());
  const [logsBloom, hashes] = [bloomOf([given]), Array.from({ length: TRANSACTIONS }, randomHash)];
  const makeReceipts = (blockHash: Hex) =>
    hashes.map((transactionHash, index): WireReceipt => {
      const place = { blockHash, blockNumber: quantity(7), transactionHash };
      const logs = [0, 1].map((at) => ({ ...given, ...place, logIndex: quantity(index * 2 + at) }));
      const head = { type: "0x2", status: "0x1", cumulativeGasUsed: quantity(21_000 * (index + 1)) };
      return { ...head, transactionHash, ...{ logsBloom }, logs };
    });
  const header = {
    ...{ number: quantity(7), parentHash: randomHash(), timestamp: "0x64", gasUsed: quantity(gasUsed) },
    ...{ logsBloom, receiptsRoot: receiptsRootOf(makeReceipts("0x")) },
  };
  const hash = hashHeader(header);
  const block = { ...header, hash, transactions: hashes };
  return { block, receipts: makeReceipts(hash), header: parseHeader(block) as BlockHeader };
}
const SMALL = makeBlock(21_000 * TRANSACTIONS);
/** So much gas that each receipt has a request of its own. */
const LARGE = makeBlock(16_000_000 * TRANSACTIONS);

const nodes: ScriptedNode[] = [];
let chain: Chain | undefined;
afterEach(async () => {
  chain?.close();
  await Promise.all(nodes.splice(0).map((node) => node.stop()));
});

type Answer = (call: AskedCall, node: ScriptedNode) => ReturnType<ScriptedNode["answer"]>;

/** Nodes that have receipts of single transactions only, and answer for them as given. */
function open({ block, receipts }: typeof SMALL, ...answers: Answer[]): Chain {
  const opened = answers.map((answer) => {
    const node = startScriptedNode(7, {});
    node.answer = (call) => {
      if (call.method === "eth_chainId") return undefined;
      const given = answer(call, node);
      if (given) return given;
      if (call.method === "eth_getBlockByHash") return { result: block };
      if (call.method !== ONE_RECEIPT)
        return { error: { code: -32601, message: "the method does not exist" } };
      return { result: receipts.find(({ transactionHash }) => transactionHash === call.params[0]) ?? null };
    };
    nodes.push(node);
    return node;
  });
  chain?.close();
  chain = openChain({ network: NETWORK, urls: opened.map(({ url }) => url), timeoutMs: 5_000 });
  return chain;
}
const SMALLEST = 2;
const read = async (made: typeof SMALL, ...answers: Answer[]) =>
  (await readProvenLogs(open(made, ...answers), made.header, undefined, SMALLEST)).map(
    ({ logIndex }) => logIndex,
  );
const ALL = Array.from({ length: TRANSACTIONS * 2 }, (_, index) => index);
const asked = () => nodes.reduce((sum, node) => sum + node.count(ONE_RECEIPT), 0);

describe("a provider's limits are not fatal", () => {
  test("of bytes in a batch: the refused rest is requested again", async () => {
    const error = { code: -32003, message: "response too large" };
    const twoAtATime: Answer = ({ method, id }) => (method === ONE_RECEIPT && id > 1 ? { error } : undefined);
    expect(await read(SMALL, twoAtATime)).toEqual(ALL);
    expect(asked()).toBe(8 + 6 + 4 + 2);
  });

  /** Every third request for receipts is one too many. */
  function limited(): Answer {
    let requests = 0;
    return ({ method }) => (method === ONE_RECEIPT && ++requests % 3 === 0 ? { status: 429 } : undefined);
  }

  test("of requests at a time: what was already read is not requested again", async () => {
    expect(await read(LARGE, limited())).toEqual(ALL);
    // eight receipts, and each third request in vain
    expect(asked()).toBe(11);
    expect(nodes[0]?.count("eth_getBlockByHash")).toBe(1);
  });

  test("of requests at a time, on every node", async () => {
    expect(await read(LARGE, limited(), limited())).toEqual(ALL);
    expect(asked()).toBeLessThanOrEqual(11);
  });
});

describe("error: what proves nothing is requested again from the start, from the next node", () => {
  const inReceipt = (change: (receipt: WireReceipt) => unknown): Answer => {
    return ({ method, params }) => {
      const found = LARGE.receipts.findIndex(({ transactionHash }) => transactionHash === params[0]);
      const receipt = LARGE.receipts[found];
      if (method !== ONE_RECEIPT || found !== 3 || !receipt) return undefined;
      return { result: change(receipt) };
    };
  };
  const withLogs = (change: (log: WireLog, index: number) => unknown) =>
    inReceipt((receipt) => ({ ...receipt, logs: receipt.logs.map(change) }));

  test.each([
    ["no receipt", inReceipt(() => null)],
    ["another transaction's receipt", inReceipt(() => LARGE.receipts[2])],
    ["a receipt without one of its logs", inReceipt((one) => ({ ...one, logs: one.logs.slice(0, 1) }))],
    ["a receipt with a log twice", inReceipt((one) => ({ ...one, logs: [...one.logs, one.logs[1]] }))],
    ["a receipt of another block", withLogs((log) => ({ ...log, blockHash: randomHash() }))],
    [
      "logs that are numbered within their transaction",
      withLogs((log, at) => ({ ...log, logIndex: quantity(at) })),
    ],
    ["logs of one number", withLogs((log) => ({ ...log, logIndex: "0x6" }))],
    ["logs of another transaction's hash", withLogs((log) => ({ ...log, transactionHash: randomHash() }))],
  ])("%s", async (_what, answer) => {
    expect(await read(LARGE, answer, () => undefined)).toEqual(ALL);
    await expect(
      readProvenLogs(open(LARGE, answer), LARGE.header, undefined, SMALLEST),
    ).rejects.toBeInstanceOf(Error);
  });

  test("a list of transactions that lacks the last one", async () => {
    const hiding: Answer = ({ method }) =>
      method === "eth_getBlockByHash"
        ? { result: { ...LARGE.block, transactions: LARGE.block.transactions.slice(0, -1) } }
        : undefined;
    expect(await read(LARGE, hiding, () => undefined)).toEqual(ALL);
  });

  test("from a node that also limits requests, and ends", async () => {
    let requests = 0;
    const lying = inReceipt((one) => ({ ...one, logs: [] }));
    const both: Answer = (call, node) =>
      call.method === ONE_RECEIPT && ++requests % 3 === 0 ? { status: 429 } : lying(call, node);
    await expect(read(LARGE, both)).rejects.toBeInstanceOf(Error);
    expect(asked()).toBeLessThan(60);
  });
});

describe("error: receipts that match the root but prove no logs", () => {
  const [first, second] = SMALL.receipts.flatMap(({ logs }) => logs) as [WireLog, WireLog];

  test("whose logs share a number, although their topics differ", () => {
    const twin = {
      ...second,
      logIndex: first.logIndex,
      topics: transferLog(randomAddress(), randomAddress()).topics,
    };
    expect(() => parseLogs([first, twin])).toThrow("in two ways");
    expect(() => parseLogs([first, { ...first, address: randomAddress() }])).toThrow("in two ways");
    expect(parseLogs([first, first])).toHaveLength(1);
  });

  test("whose logs are not numbered through the block", () => {
    const numbered = (by: number) =>
      SMALL.receipts.map((one) => ({
        ...one,
        logs: one.logs.map((log) => ({ ...log, logIndex: quantity(Number(log.logIndex) + by) })),
      }));
    expect(readReceipts(numbered(0))).toMatchObject({ root: SMALL.header.receiptsRoot });
    expect(readReceipts(numbered(1))).toMatchObject({ error: { kind: "malformed" } });
  });

  /** The first two logs are alike and of one number; the others are numbered on from it. */
  const twins = SMALL.receipts.map((one) => ({
    ...one,
    logs: one.logs.map((log) => ({ ...log, logIndex: quantity(Math.max(Number(log.logIndex) - 1, 0)) })),
  }));

  test("of which two equal ones share a number, so that later ones have another log's number", async () => {
    expect(readReceipts(twins)).toMatchObject({ error: { kind: "malformed" } });
    const lying: Answer = ({ method, params }) =>
      method === ONE_RECEIPT
        ? { result: twins.find(({ transactionHash }) => transactionHash === params[0]) }
        : undefined;
    expect(await read(SMALL, lying, () => undefined)).toEqual(ALL);
    await expect(read(SMALL, lying)).rejects.toThrow("not numbered through");
  });

  test("and neither do two equal answers that match the bloom, where two logs share a number", async () => {
    const logs = twins.flatMap((one) => one.logs);
    const lying: Answer = ({ method }) => (method === "eth_getLogs" ? { result: logs } : undefined);
    const byBloom = await readProvenLogs(open(SMALL, lying), SMALL.header, undefined, 1);
    expect(byBloom.map(({ logIndex }) => logIndex)).toEqual(ALL);
  });
});
