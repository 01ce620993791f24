/** Blocks pass as quiet only when one answer shows logs of each, of the cursor's chain and the head's, and none of them concerns us. */
import { afterEach, describe, expect, test } from "bun:test";
import { type Chain, openChain } from "../../core/rpc/chain-client.ts";
import type { ChainNode } from "../../core/rpc/node.ts";
import { type BlockHeader, parseHeader } from "../../indexer/source/block-header.ts";
import { isQuietRange } from "../../indexer/source/quiet-range.ts";
import { randomAddress } from "../support/seed.ts";
import {
  authorizationLog,
  type GivenLog,
  logsIn,
  NETWORK,
  operationLog,
  type ScriptedNode,
  startScriptedNode,
  transferLog,
} from "./scripted-node.ts";

const [wallet, payer, stranger] = [randomAddress(), randomAddress(), randomAddress()];
const theirs = transferLog(payer, stranger);
const BLOCKS_MAX = 32;

let node: ScriptedNode | undefined;
let chain: Chain | undefined;
afterEach(async () => {
  chain?.close();
  await node?.stop();
});

/** From block 1 on, each with a transfer of others unless it is given. */
function open(head: number, given: Record<number, GivenLog[]> = {}) {
  const numbers = Array.from({ length: head }, (_, index) => index + 1);
  const blocks = Object.fromEntries(numbers.map((number) => [number, given[number] ?? [theirs]]));
  const running = startScriptedNode(head, blocks);
  const opened = openChain({ network: NETWORK, urls: [running.url], timeoutMs: 10_000 });
  [node, chain] = [running, opened];
  const watch = { size: 1, bits: () => [], wantsAuthorizations: false };
  const isQuiet = (from: number, to: number) =>
    isQuietRange(
      opened,
      {
        cursor: { number: from, hash: running.block(from).block.hash },
        head: parseHeader(running.block(to).block) as BlockHeader,
      },
      { ...watch, isWatched: (address) => address === wallet },
    );
  const [asked] = opened.nodes as readonly [ChainNode];
  return { node: running, limit: asked.health.logBlocks, isQuiet };
}

test("blocks of others are quiet, up to 32 including the cursor's; more are not queried", async () => {
  const { node, isQuiet } = open(BLOCKS_MAX + 1);
  expect(await isQuiet(1, BLOCKS_MAX)).toBe(true);
  expect(node.ranges()).toEqual([[1, BLOCKS_MAX]]);
  expect(await isQuiet(1, BLOCKS_MAX + 1)).toBe(false);
  expect(node.ranges().length).toBe(1);
});

describe("blocks are not quiet", () => {
  test.each([
    ["a transfer to a wallet in the head's block", 5, [theirs, transferLog(payer, wallet)]],
    ["a transfer to a wallet in between", 3, [transferLog(payer, wallet)]],
    ["an operation of a wallet", 4, [operationLog(wallet)]],
    // it may be the end of one of our payments
    ["an authorization that no transfer follows", 3, [theirs, authorizationLog(payer)]],
    ["no log at all in the first", 1, []],
    ["no log at all in one", 3, []],
    ["no log at all in the last", 5, []],
  ])("with %s", async (_what, number, logs) => {
    expect(await open(5, { [number]: logs }).isQuiet(1, 5)).toBe(false);
  });

  test.each([
    ["the cursor's block", 1],
    ["a block in between", 3],
    ["the head's block", 5],
  ])("while a log of %s is of another chain", async (_which, number) => {
    const { node, isQuiet } = open(5);
    const logs = [1, 2, 3, 4, 5].flatMap((one) => logsIn(node.block(one), [theirs, theirs]));
    node.answer = ({ method }) => (method === "eth_getLogs" ? { result: logs } : undefined);
    expect(await isQuiet(1, 5)).toBe(true);
    const foreign = logs.map((log, index) =>
      index === 2 * number - 1 ? { ...log, blockHash: `0x${"ab".repeat(32)}` } : log,
    );
    node.answer = ({ method }) => (method === "eth_getLogs" ? { result: foreign } : undefined);
    expect(await isQuiet(1, 5)).toBe(false);
  });
});

test("the cursor's own block was read: our logs in it are not considered again", async () => {
  expect(await open(5, { 1: [transferLog(payer, wallet)] }).isQuiet(1, 5)).toBe(true);
});

test("a node is not asked for more blocks than it accepts, nor again for as many as it has refused", async () => {
  const { node, limit, isQuiet } = open(9);
  limit.size = 4;
  expect(await isQuiet(1, 5)).toBe(false);
  expect(node.ranges()).toEqual([]);
  limit.size = 8;
  node.answer = ({ method }) =>
    method === "eth_getLogs" ? { error: { code: -32600, message: "exceed maximum block range" } } : undefined;
  expect(await isQuiet(1, 8)).toBe(false);
  node.answer = () => undefined;
  expect(await isQuiet(1, 5)).toBe(false);
  expect(node.ranges()).toEqual([[1, 8]]);
  expect(await isQuiet(1, 4)).toBe(true);
  expect(node.ranges()).toEqual([
    [1, 8],
    [1, 4],
  ]);
});

test("error: a failure of the node does not mean that blocks are not quiet", async () => {
  const { node, isQuiet } = open(5);
  node.answer = () => ({ status: 503 });
  await expect(isQuiet(1, 5)).rejects.toThrow("HTTP 503");
});
