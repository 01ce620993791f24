/** Transactions by their hashes: from whichever node answers what makes the hash, and absent only when nodes answer something else. */
import { afterEach, expect, test } from "bun:test";
import { toHex } from "viem";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { type Chain, openChain } from "../../core/rpc/chain-client.ts";
import { openLog } from "../../core/runtime/log.ts";
import { readTransactions } from "../../indexer/source/read-transactions.ts";
import { type AskedCall, NETWORK, type ScriptedNode, startScriptedNode } from "./scripted-node.ts";
import { type RpcTransaction, signCall } from "./signed-transaction.ts";

const BLOCK: Hex = `0x${"b1".repeat(32)}`;
const sign = (nonce: number) => signCall(nonce, `0xa9059cbb${nonce.toString(16).padStart(128, "0")}`);

const nodes: ScriptedNode[] = [];
let chain: Chain | undefined;
async function stop() {
  chain?.close();
  await Promise.all(nodes.splice(0).map((node) => node.stop()));
}
afterEach(stop);

const isByHash = ({ method }: AskedCall) => method === "eth_getTransactionByHash";
const lieOf = (one: RpcTransaction) => ({
  ...one,
  input: `${one.input.slice(0, -2)}${one.input.endsWith("ff") ? "00" : "ff"}`,
});

type Answers = ScriptedNode["answer"];

/** Inputs of these, from nodes that know all of `known`, each with what it answers instead. */
async function read(
  wanted: readonly RpcTransaction[],
  answers: readonly Answers[],
  known: readonly RpcTransaction[] = wanted,
): Promise<(Hex | undefined)[]> {
  for (const answer of answers) {
    const node = startScriptedNode(1, {});
    const find = (hash: unknown) => known.find((one) => one.hash === hash) ?? null;
    const inBlock = { result: { transactions: known } };
    node.answer = (call) => answer(call) ?? (isByHash(call) ? { result: find(call.params[0]) } : inBlock);
    nodes.push(node);
  }
  chain = openChain({ network: NETWORK, urls: nodes.map(({ url }) => url), timeoutMs: 10_000 });
  const reader = { chain, log: openLog("test", "silent"), network: NETWORK } as const;
  const places = wanted.map(({ hash }) => ({ hash, blockHash: BLOCK }));
  const found = await readTransactions(reader, places);
  return wanted.map(({ hash }) => found.get(hash)?.input);
}

/** Every node tells its chain. */
const withId =
  (answer: Answers): Answers =>
  (call) =>
    call.method === "eth_chainId" ? { result: toHex(NETWORKS[NETWORK].chainId) } : answer(call);
const truth = withId(() => undefined);

test("many are read from one node, even if its answers to more than two at a time fail", async () => {
  const many = await Promise.all(Array.from({ length: 51 }, (_, nonce) => sign(nonce)));
  const inputs = many.map(({ input }) => input);
  expect(await read(many, [truth])).toEqual(inputs);
  await stop();
  const few = withId((call) => (isByHash(call) && call.id > 1 ? { status: 503 } : undefined));
  expect(await read(many.slice(0, 20), [few])).toEqual(inputs.slice(0, 20));
});

test("error: if a node fails for a single one, or none has it, nothing is concluded", async () => {
  const one = await sign(0);
  const failing = withId((call) => (isByHash(call) ? { status: 503 } : undefined));
  await expect(read([one], [failing])).rejects.toThrow("HTTP 503");
  await stop();
  const unknown = withId(() => ({ result: null }));
  await expect(read([one], [unknown])).rejects.toMatchObject({
    ...{ kind: "not-ready", message: `no node has transaction ${one.hash}` },
  });
});

test("one that a node answers falsely is read from another node", async () => {
  const one = await sign(0);
  const liar = withId((call) => (isByHash(call) ? { result: lieOf(one) } : undefined));
  expect(await read([one], [liar, truth])).toEqual([one.input]);
});

test("one that no node answers correctly is absent: four nodes are asked, and no block", async () => {
  const one = await sign(0);
  const liar = withId((call) => (isByHash(call) ? { result: lieOf(one) } : undefined));
  // one more liar than are asked: the first node comes last when its answer took long
  expect(await read([one], [liar, liar, liar, liar, liar, truth])).toEqual([undefined]);
  const count = (method: string) => nodes.map((node) => node.count(method)).reduce((sum, one) => sum + one);
  expect(count("eth_getBlockByHash")).toBe(0);
  // the batch, and four nodes
  expect(count("eth_getTransactionByHash")).toBe(1 + 4);
});

test("one that no node has by its hash is read from the block, among others", async () => {
  const [other, one] = [await sign(0), await sign(1)];
  const withoutIndex = withId((call) => (isByHash(call) ? { result: null } : undefined));
  expect(await read([one], [withoutIndex], [other, one])).toEqual([one.input]);
});
