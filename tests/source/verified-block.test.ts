/** A block's logs count once they are proven: in one of three ways, by one node after another, and otherwise not at all. */
import { afterEach, describe, expect, test } from "bun:test";
import { bloomOf } from "../../core/chain/bloom.ts";
import { type Chain, openChain } from "../../core/rpc/chain-client.ts";
import type { ChainNode } from "../../core/rpc/node.ts";
import {
  askForReceipts,
  provenLogsOrRead,
  provenLogsOrUndefined,
  readProvenLogs,
  readProvenLogsOn,
  readReceipts,
  receiptsCall,
} from "../../indexer/source/verified-block.ts";
import { randomAddress } from "../support/seed.ts";
import {
  type AskedCall,
  blockOf,
  headerOf,
  NETWORK,
  type ScriptedNode,
  startScriptedNode,
  transferLog,
} from "./scripted-node.ts";

/** Far above what a busy machine needs for the largest answer. */
const TIMEOUT_MS = 45_000;
const NUMBER = 3;
/** Three of the same topics: a bloom does not tell how many there are. */
const paid = transferLog(randomAddress(), randomAddress());
const LOGS = [paid, paid, paid];
const header = headerOf(NUMBER, LOGS);
const { logs: wire, receipts } = blockOf(NUMBER, LOGS);

const UNKNOWN = { error: { code: -32601, message: "the method does not exist" } };
const RECEIPTS = "eth_getBlockReceipts";
const ONE_RECEIPT = "eth_getTransactionReceipt";

const nodes: ScriptedNode[] = [];
let chain: Chain | undefined;
afterEach(async () => {
  chain?.close();
  await Promise.all(nodes.splice(0).map((node) => node.stop()));
});

type Answers = Partial<Record<string, ReturnType<ScriptedNode["answer"]>>>;

/** A node for each of these, which says the truth where nothing is given. */
function open(...answers: Answers[]): Chain {
  for (const answer of answers) {
    const node = startScriptedNode(NUMBER, { [NUMBER]: LOGS });
    node.answer = ({ method }: AskedCall) => answer[method];
    nodes.push(node);
  }
  chain = openChain({ network: NETWORK, urls: nodes.map(({ url }) => url), timeoutMs: TIMEOUT_MS });
  return chain;
}

const indicesOf = (logs: readonly { logIndex: number }[]) => logs.map(({ logIndex }) => logIndex);
const read = async (...answers: Answers[]) => indicesOf(await readProvenLogs(open(...answers), header));
const asked = (node = nodes[0]) => node?.calls.map(({ method }) => method.replace("eth_get", ""));
/** Of a log query and of receipts. */
const without = (index: number) => ({ result: wire.filter((_, at) => at !== index) });
const LYING_RECEIPTS = { result: receipts.map((one) => ({ ...one, logs: wire.slice(0, 2) })) };

describe("a node's logs are proven", () => {
  test("by its receipts, in one request", async () => {
    expect(await read({})).toEqual([0, 1, 2]);
    expect(asked()).toEqual(["BlockReceipts"]);
  });

  test.each([
    ["has none by block", UNKNOWN],
    ["fails to serve them", { status: 503 }],
    ["has ones that differ from the header's", LYING_RECEIPTS],
    ["answers with something other than a list", { result: null }],
  ])("by two equal answers that match the bloom, if it %s", async (_what, answer) => {
    expect(await read({ [RECEIPTS]: answer })).toEqual([0, 1, 2]);
    expect(asked()?.slice(-2)).toEqual(["Logs", "Logs"]);
    expect(indicesOf(await readProvenLogsOn(open({ [RECEIPTS]: answer }), nodeAt(1), header))).toEqual([
      0, 1, 2,
    ]);
  });

  test.each([
    ["with a gap", without(1)],
    ["without the first", without(0)],
    ["without any", { result: [] }],
  ])("by each transaction's receipt, if its answer is one %s", async (_what, logs) => {
    expect(await read({ [RECEIPTS]: UNKNOWN, eth_getLogs: logs })).toEqual([0, 1, 2]);
    expect(asked()?.slice(-2)).toEqual(["BlockByHash", "TransactionReceipt"]);
  });

  test("by the bloom of a header whose hash is not proven too, but then not that there are none", async () => {
    const unknown = { ...header, isHashProven: false };
    const logs = await readProvenLogs(open({ [RECEIPTS]: UNKNOWN }), unknown);
    expect([indicesOf(logs), asked()?.slice(-2)]).toEqual([
      [0, 1, 2],
      ["Logs", "Logs"],
    ]);
    const blank = { ...unknown, bloom: bloomOf([]) };
    const hiding = { [RECEIPTS]: UNKNOWN, eth_getLogs: { result: [] } };
    expect(indicesOf(await readProvenLogs(open(hiding), blank))).toEqual([0, 1, 2]);
  });

  test("by each transaction's receipt, if another node's answer has a last one more", async () => {
    const hiding = { [RECEIPTS]: UNKNOWN, eth_getLogs: without(2) };
    expect(await read(hiding, { [RECEIPTS]: UNKNOWN })).toEqual([0, 1, 2]);
    // which node is asked how often depends on how fast each of them is
    const [own = 0, other = 0] = nodes.map((node) => node.count("eth_getLogs"));
    expect([own > 0, other === own]).toEqual([true, true]);
    expect(nodes.some((node) => node.count(ONE_RECEIPT) > 0)).toBe(true);
  });

  test("by the next node, if one has nothing that proves them", async () => {
    const none = { [RECEIPTS]: UNKNOWN, eth_getLogs: UNKNOWN, [ONE_RECEIPT]: UNKNOWN };
    expect(await read(none, {})).toEqual([0, 1, 2]);
  });
});

const nodeAt = (place: number) => chain?.nodes[place - 1] as ChainNode;

/** Whoever fills a block with logs chooses the size of its receipts. */
describe("for a block whose receipts are too large for one answer", () => {
  const large = { [RECEIPTS]: { result: [{ ...receipts[0], filler: "f".repeat(48 * 1024 * 1024) }] } };

  test("the logs are proven by each transaction's receipt, from any node, which still counts as healthy", async () => {
    expect(await read(large, large, large)).toEqual([0, 1, 2]);
    const all = nodes.flatMap(({ calls }) => calls.map(({ method }) => method));
    expect(all).toEqual([RECEIPTS, "eth_getBlockByHash", ONE_RECEIPT]);
    expect(chain?.nodes.map(({ health }) => health.errorsInARow)).toEqual([0, 0, 0]);
  });

  test("the response decides nothing, and is not requested again alone or from another node", async () => {
    const all = open(large, large);
    const [outcome] = await askForReceipts(all, [receiptsCall(header)]);
    expect(outcome).toMatchObject({ ok: false, error: { kind: "too-large" } });
    expect(nodes.flatMap(({ calls }) => calls)).toHaveLength(1);
    const logs = await provenLogsOrRead(all, header, outcome, () => true);
    expect(indicesOf(logs)).toEqual([0, 1, 2]);
    expect(nodes.map((node) => node.count(RECEIPTS))).toEqual([1, 0]);
  });
});

test("error: an answer that large to any other request is the node's fault: the next one is asked", async () => {
  const all = open({ eth_getBlockByNumber: { result: "f".repeat(48 * 1024 * 1024) } }, {});
  expect(await all.request("eth_getBlockByNumber", ["0x3", false])).toMatchObject({ number: "0x3" });
  expect(chain?.nodes.map(({ health }) => health.errorsInARow)).toEqual([1, 0]);
});

test.each([
  ["without topics", undefined],
  ["whose topic is a number", [5]],
])("error: a log %s proves nothing, and is not an error of ours", async (_which, topics) => {
  const broken = {
    result: receipts.map((one) => ({ ...one, logs: wire.map((log) => ({ ...log, topics })) })),
  };
  expect(readReceipts(broken.result)).toMatchObject({ error: { kind: "malformed" } });
  expect(await read({ [RECEIPTS]: broken, eth_getLogs: { result: [] }, [ONE_RECEIPT]: broken }, {})).toEqual([
    0, 1, 2,
  ]);
});

test.each([
  ["by its receipts", {}],
  ["by two answers", { [RECEIPTS]: UNKNOWN }],
  ["by each receipt", { [RECEIPTS]: UNKNOWN, eth_getLogs: { result: [] } }],
])("of logs that are proven %s only the wanted ones are kept", async (_how, answer: Answers) => {
  expect(indicesOf(await readProvenLogs(open(answer), header, ({ logIndex }) => logIndex === 1))).toEqual([
    1,
  ]);
});

describe("error: logs are not accepted", () => {
  test("that no way proves, after six attempts in turn", async () => {
    const none = { [RECEIPTS]: UNKNOWN, eth_getLogs: UNKNOWN, eth_getBlockByHash: UNKNOWN };
    await expect(read(none)).rejects.toThrow("does not exist");
    const ways = ["BlockReceipts", "Logs", "BlockByHash"];
    expect(asked()).toEqual([...ways, ...ways]);
  });

  test("from a block whose transactions are not answered", async () => {
    const none = { [RECEIPTS]: UNKNOWN, eth_getLogs: { result: [] }, eth_getBlockByHash: { result: null } };
    const all = open(none);
    await expect(readProvenLogsOn(all, nodeAt(1), header)).rejects.toThrow(
      "its transactions were not answered",
    );
    await expect(readProvenLogs(all, header)).rejects.toMatchObject({ kind: "malformed" });
  });

  test("in another way from a node that does not answer in JSON-RPC: it has not said that it has none", async () => {
    const all = open({ [RECEIPTS]: { status: 200 } });
    await expect(readProvenLogsOn(all, nodeAt(1), header)).rejects.toMatchObject({ kind: "malformed" });
    expect(asked()).toEqual(["BlockReceipts"]);
  });

  test("from receipts of a batch that failed, or that match another root", () => {
    const error = new Error("refused") as never;
    expect(provenLogsOrUndefined(header, undefined)).toBeUndefined();
    expect(provenLogsOrUndefined(header, { ok: false, error })).toBeUndefined();
    const provenBy = (answer: unknown) =>
      provenLogsOrUndefined(header, { ok: true, result: readReceipts(answer) });
    expect(provenBy(LYING_RECEIPTS.result)).toBeUndefined();
    expect(provenBy(receipts)?.length).toBe(3);
  });
});
