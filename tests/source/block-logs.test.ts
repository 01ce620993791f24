/** How a block is read: what its bloom rules out is not asked for, what is ours is proven, and an answer that contradicts the bloom is no answer. */
import { afterEach, describe, expect, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { type Chain, openChain } from "../../core/rpc/chain-client.ts";
import { readBlocks, readRange, type Watch, walletBits } from "../../indexer/source/block-logs.ts";
import { randomAddress } from "../support/seed.ts";
import {
  type AskedCall,
  authorizationLog,
  blockOf,
  type GivenLog,
  headerOf,
  logsIn,
  NETWORK,
  operationLog,
  type ScriptedBlock,
  type ScriptedNode,
  startScriptedNode,
  transferLog,
} from "./scripted-node.ts";

const [wallet, payer, stranger] = [randomAddress(), randomAddress(), randomAddress()];
const [ours, theirs] = [transferLog(payer, wallet), transferLog(payer, stranger)];
/** Few enough that a bloom tells. */
const BLOOM_WALLETS_MAX = 5_000;
const PROVEN_MAX = 32;

let node: ScriptedNode | undefined;
let chain: Chain | undefined;
afterEach(async () => {
  chain?.close();
  await node?.stop();
});

const watchOf = (change: Partial<Watch> = {}): Watch => ({
  ...{ size: 1, wantsAuthorizations: true, isWatched: (address: Hex) => address === wallet },
  bits: () => walletBits([wallet]),
  ...change,
});
/** More than a bloom tells about. */
const crowd = watchOf({ size: BLOOM_WALLETS_MAX + 1 });

function open(head: number, blocks: Record<number, GivenLog[]>) {
  const running = startScriptedNode(head, blocks);
  const opened = openChain({ network: NETWORK, urls: [running.url], timeoutMs: 10_000 });
  [node, chain] = [running, opened];
  return { node: running, chain: opened };
}

const methods = ({ calls }: ScriptedNode) => calls.map(({ method }) => method.replace("eth_get", ""));
const isLogs = ({ method }: AskedCall) => method === "eth_getLogs";

/** Block 1 of these logs near the head: what was found in it, and what was asked for. */
async function readNear(logs: GivenLog[], watch: Watch, answer?: ScriptedNode["answer"]) {
  const { node, chain } = open(1, { 1: logs });
  if (answer) node.answer = answer;
  const contents = await readBlocks(chain, [headerOf(1, logs)], watch);
  const [content] = contents;
  return { found: content?.transfers.length, spent: content?.spent.length, asked: methods(node) };
}

describe("near the head", () => {
  const other = randomAddress();
  test.each([
    ["nothing", []],
    ["an approval of the token", [{ ...theirs, topics: [`0x${"ee".repeat(32)}` as Hex] }]],
    ["transfers of another token", [{ ...theirs, address: other }]],
  ])("a block with %s costs no request", async (_what, logs) => {
    for (const watch of [watchOf(), crowd])
      expect(await readNear(logs, watch)).toEqual({ found: 0, spent: 0, asked: [] });
  });

  test("a block that may hold a wallet's log is read from its receipts", async () => {
    expect(await readNear([theirs, ours], watchOf())).toEqual({
      found: 1,
      spent: 0,
      asked: ["BlockReceipts"],
    });
    const { asked } = await readNear([operationLog(wallet)], watchOf());
    expect(asked).toEqual(["BlockReceipts"]);
  });

  test("a block of others is asked for its logs only while payments wait", async () => {
    expect((await readNear([theirs], watchOf())).asked).toEqual(["Logs"]);
    expect((await readNear([theirs], watchOf({ wantsAuthorizations: false }))).asked).toEqual([]);
    // without the token there is no authorization in it
    expect((await readNear([operationLog(stranger)], watchOf())).asked).toEqual([]);
    expect((await readNear([operationLog(stranger)], crowd)).asked).toEqual(["Logs"]);
  });

  test("a bloom is usable for 5,000 wallets, and only for a few where it is dense", async () => {
    const quiet = { wantsAuthorizations: false };
    expect((await readNear([theirs], watchOf({ ...quiet, size: BLOOM_WALLETS_MAX }))).asked).toEqual([]);
    expect((await readNear([theirs], watchOf({ ...quiet, size: BLOOM_WALLETS_MAX + 1 }))).asked).toEqual([
      "Logs",
    ]);
    const busy = Array.from({ length: 300 }, () => transferLog(randomAddress(), randomAddress()));
    // about half of its bits are set: by chance three are set in every eighth case
    expect((await readNear(busy, watchOf({ ...quiet, bits: () => [] }))).asked).toEqual(["Logs"]);
  });

  test("logs of others need no proof; ours, none at all and lone authorizations are proven", async () => {
    const asked = async (logs: GivenLog[], answer?: ScriptedNode["answer"]) =>
      (await readNear(logs, crowd, answer)).asked;
    expect(await asked([theirs])).toEqual(["Logs"]);
    expect(await readNear([ours], crowd)).toEqual({ found: 1, spent: 0, asked: ["Logs", "BlockReceipts"] });
    expect(await asked([theirs, authorizationLog(payer)])).toEqual(["Logs", "BlockReceipts"]);
    const leaveOut = (call: AskedCall) => (isLogs(call) ? { result: [] } : undefined);
    expect(await readNear([ours], crowd, leaveOut)).toEqual({
      ...{ found: 1, spent: 0, asked: ["Logs", "BlockReceipts"] },
    });
  });

  test("a block whose log query is refused is read from its receipts", async () => {
    const refuse = (call: AskedCall) =>
      isLogs(call) ? { error: { code: -32600, message: "too many results" } } : undefined;
    const { node, chain } = open(2, { 1: [ours], 2: [theirs] });
    node.answer = refuse;
    const contents = await readBlocks(
      chain,
      [headerOf(1, [ours]), headerOf(2, [theirs], { 1: [ours] })],
      crowd,
    );
    expect(contents.map(({ transfers }) => transfers.length)).toEqual([1, 0]);
    expect(node.count("eth_getBlockReceipts")).toBe(2);
  });
});

/** Blocks 1 to `count` as far below the head. */
async function readFar(
  count: number,
  blocks: Record<number, GivenLog[]>,
  {
    watch = watchOf(),
    answer,
    areOurs = false,
  }: { watch?: Watch; answer?: ScriptedNode["answer"]; areOurs?: boolean } = {},
) {
  const { node, chain } = open(count, blocks);
  if (answer) node.answer = answer;
  const contents = await readRange(chain, { from: 1, to: count }, watch, { areOurs });
  const hits = contents.filter(({ transfers }) => transfers.length > 0).map(({ block }) => block.number);
  const proven = node.calls.flatMap(({ method, params }) =>
    method === "eth_getBlockReceipts" ? Number(node.block(params[0]).block.number) : [],
  );
  return {
    numbers: contents.map(({ block }) => block.number),
    hits,
    proven,
    logs: node.count("eth_getLogs"),
  };
}
const fill = (count: number, logs: GivenLog[]) =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [index + 1, logs]));

describe("far below the head", () => {
  test("every block is read by one log query, and those with our logs are proven", async () => {
    expect(await readFar(4, { 1: [theirs], 3: [theirs, ours] })).toEqual({
      ...{ numbers: [1, 2, 3, 4], hits: [3], proven: [3], logs: 1 },
    });
  });

  test("as many as 32 with our logs are proven, and not one more", async () => {
    const all = Array.from({ length: PROVEN_MAX + 1 }, (_, index) => index + 1);
    const few = await readFar(PROVEN_MAX, fill(PROVEN_MAX, [ours]));
    expect(few.proven).toEqual(all.slice(0, PROVEN_MAX));
    const many = await readFar(PROVEN_MAX + 1, fill(PROVEN_MAX + 1, [ours]));
    expect([many.hits, many.proven]).toEqual([all, []]);
  });

  test("where all are expected to have our logs, as many as 32 are read without a log query", async () => {
    const few = await readFar(PROVEN_MAX, { 2: [ours] }, { areOurs: true });
    expect([few.hits, few.logs, few.proven.length]).toEqual([[2], 0, PROVEN_MAX]);
    const many = await readFar(PROVEN_MAX + 1, { 2: [ours] }, { areOurs: true });
    expect([many.hits, many.logs, many.proven]).toEqual([[2], 1, [2]]);
  });

  test("an answer that omits a log in the bloom is resolved by proof", async () => {
    const leaveOut = (call: AskedCall) => (isLogs(call) ? { result: [] } : undefined);
    expect(await readFar(3, { 2: [ours] }, { answer: leaveOut })).toMatchObject({ hits: [2] });
    expect(await readFar(3, { 2: [ours] }, { answer: leaveOut, watch: crowd })).toMatchObject({ hits: [2] });
    const answer = (call: AskedCall) =>
      isLogs(call) ? { result: blockOf(2, [theirs, ours]).logs.slice(0, 1) } : undefined;
    expect(await readFar(3, { 2: [theirs, ours] }, { answer })).toMatchObject({ hits: [2], proven: [2, 2] });
  });

  test("a transfer to a wallet that the bloom rules out is resolved by proof: it does not exist", async () => {
    const addTo = (block: ScriptedBlock) => (call: AskedCall) =>
      isLogs(call) ? { result: logsIn(block, [ours]) } : undefined;
    expect(await readFar(3, {}, { answer: addTo(blockOf(2, [])) })).toMatchObject({ hits: [], proven: [2] });
    const quiet = watchOf({ wantsAuthorizations: false });
    const answer = addTo(blockOf(2, [theirs]));
    expect(await readFar(3, { 2: [theirs] }, { answer, watch: quiet })).toMatchObject({
      hits: [],
      proven: [2],
    });
  });

  test("logs of others that match the bloom need no proof, except for a lone authorization", async () => {
    const given = { 1: [theirs], 2: [theirs, authorizationLog(payer)] };
    expect((await readFar(2, given, { watch: crowd })).proven).toEqual([2]);
    expect((await readFar(2, given)).proven).toEqual([2]);
    expect((await readFar(2, given, { watch: watchOf({ wantsAuthorizations: false }) })).proven).toEqual([]);
  });

  test("error: headers that a node lacks, or has at another height, are not read", async () => {
    for (const result of [null, { ...blockOf(1, []).block, number: "0x5" }]) {
      const answer = ({ method, params: [number] }: AskedCall) =>
        method === "eth_getBlockByNumber" && number === "0x1" ? { result } : undefined;
      await expect(readFar(2, {}, { answer })).rejects.toThrow("does not know block 1");
      chain?.close();
      await node?.stop();
    }
  });
});
