/** Ranges in which every block is expected to touch our wallets: read from the receipts that prove them. */
import { afterAll, beforeAll, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { type Chain, openChain } from "../../core/rpc/chain-client.ts";
import { watchOf } from "../../indexer/leader-term.ts";
import { readRange } from "../../indexer/source/block-logs.ts";
import { WatchedSet } from "../../indexer/source/watched-wallets.ts";
import { type CountingProxy, startCountingProxy } from "../support/counting-proxy.ts";
import {
  headOf,
  type Lab,
  makePayer,
  mine,
  NETWORK,
  openLab,
  pay,
  randomAddress,
} from "../support/indexer-lab.ts";
import { waitForReceipt } from "../support/wait-for-receipt.ts";

setDefaultTimeout(120_000);
const BLOCKS = 6;

let lab: Lab;
let proxy: CountingProxy;
let chain: Chain;
const wallet = randomAddress();
/** The first and last of the blocks that each pay the wallet. */
let range: { from: number; to: number };
/** What the node answers instead of a block's receipts. */
let edit: (answer: unknown) => unknown = (answer) => answer;

beforeAll(async () => {
  lab = await openLab();
  const payer = await makePayer(lab);
  // one block each: the node mines after it has answered
  for (let n = 0; n < BLOCKS; n++)
    await waitForReceipt(lab.chain.rpcUrl, await pay(lab, payer, wallet, BigInt(n + 1)));
  const to = (await headOf(lab)).number;
  range = { from: to - BLOCKS + 1, to };
  await mine(lab, BLOCKS);
  proxy = startCountingProxy(lab.chain.rpcUrl, {
    hasWebSocket: false,
    edit: ({ method }, answer) => (method === "eth_getBlockReceipts" ? edit(answer) : answer),
  });
});
afterAll(async () => {
  await proxy?.stop();
  await lab?.stop();
});
beforeEach(() => {
  edit = (answer) => answer;
  proxy.reset();
});

async function read(blocks: { from: number; to: number }, areOurs: boolean) {
  const watched = new WatchedSet();
  watched.add(wallet);
  chain = openChain({ network: NETWORK, urls: [proxy.url], timeoutMs: 10_000 });
  try {
    return await readRange(chain, blocks, watchOf(watched), { areOurs });
  } finally {
    chain.close();
  }
}

test("contain what a log query finds, without a log query", async () => {
  const asked = await read(range, false);
  expect(proxy.calls().eth_getLogs).toBeGreaterThan(0);
  expect(asked.flatMap(({ transfers }) => transfers).map(({ amountUnits }) => amountUnits)).toEqual(
    Array.from({ length: BLOCKS }, (_, n) => BigInt(n + 1)),
  );
  proxy.reset();
  expect(await read(range, true)).toEqual(asked);
  const { eth_getLogs, eth_getBlockByNumber, eth_getBlockReceipts } = proxy.calls();
  expect([eth_getLogs, eth_getBlockByNumber, eth_getBlockReceipts]).toEqual([undefined, BLOCKS, BLOCKS]);
});

test("that do not touch our wallets are read as well", async () => {
  const quiet = { from: range.to + 1, to: range.to + BLOCKS };
  const blocks = await read(quiet, true);
  expect(blocks.map(({ block }) => block.number)).toEqual(
    Array.from({ length: BLOCKS }, (_, n) => quiet.from + n),
  );
  expect(blocks.flatMap(({ transfers }) => transfers)).toEqual([]);
});

test("whose receipts lack a log are proven in another way", async () => {
  const asked = await read(range, false);
  edit = (answer) => (answer as { logs: unknown[] }[]).map((receipt) => ({ ...receipt, logs: [] }));
  proxy.reset();
  expect(await read(range, true)).toEqual(asked);
  // each block's bloom has to be met by all of its logs
  expect(proxy.calls().eth_getLogs).toBeGreaterThanOrEqual(BLOCKS);
});

test("error: are not read beyond what the node has", async () => {
  const { number } = await headOf(lab);
  const beyond: { from: number; to: number; hash?: Hex } = { from: number, to: number + 1 };
  await expect(read(beyond, true)).rejects.toThrow(`does not know block ${number + 1}`);
});
