/** Nodes that hang or are slow: relays are signed, sent, resent and confirmed as long as one node answers in time. */
import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { contractOrder, YES_SAYER } from "../payments/contract-orders.ts";
import { readHead } from "../payments/second-payer.ts";
import type { FaultProxy, ProxiedCall } from "../rpc/fault-proxy.ts";
import { stuckAt } from "../rpc/stuck-node.ts";
import {
  countTransfers,
  type Lab,
  newOrder,
  newOrders,
  type Order,
  payWithRetries,
  queueAll,
  relaysOf,
  startLab,
  waitFor,
  waitForLink,
  waitUntilSigned,
} from "../support/relay-lab.ts";

/** Of the sender alone. */
const SENDER_METHODS = ["eth_sendRawTransaction", "eth_getTransactionCount", "eth_maxPriorityFeePerGas"];
/** Two of them are as old as a head may be. */
const SLOW_MS = 1_500;
/** Of one pass; sent one after the other they take longer than a head is valid. */
const RELAYS = 6;
const SEND_MS = 800;
const HEAD_MAX_AGE_S = 2;
/** More than nodes may be apart. */
const BLOCKS_BEHIND = "0x8";
let lab: Lab;
let nodes: FaultProxy[];

beforeAll(async () => {
  lab = await startLab({ hasSpare: true });
  nodes = [lab.proxy, ...(lab.spare ? [lab.spare] : [])];
  expect(nodes).toHaveLength(2);
  expect(await payWithRetries(lab, await newOrder(lab))).toMatchObject({ status: 200 });
}, 120_000);

afterEach(async () => {
  for (const node of nodes) {
    node.fault = () => undefined;
    node.delay = () => undefined;
  }
  await lab.rpc("evm_setAutomine", [true]);
  await lab.rpc("evm_mine");
  await lab.service.startMissing();
  process.kill(lab.service.pidOf("worker"), "SIGCONT");
});

afterAll(() => lab?.stop());

const isSend = ({ method }: ProxiedCall) => method === "eth_sendRawTransaction";

/** How much the sender asked of a node since its request of this number. */
const countFromSender = ({ methods }: FaultProxy, asked: number) =>
  methods.slice(asked).filter((method) => SENDER_METHODS.includes(method)).length;

async function isOlder(number: bigint, seconds: number): Promise<boolean> {
  const block = await lab.rpc("eth_getBlockByNumber", [`0x${number.toString(16)}`, false]);
  return Date.now() / 1000 - Number((block as { timestamp: string }).timestamp) > seconds;
}

async function waitUntilConfirmed(orders: readonly Order[]): Promise<void> {
  for (const { linkId } of orders) await waitForLink(lab, linkId, "PAID");
  await waitFor("all relays to be CONFIRMED", async () =>
    (await relaysOf(lab)).every(({ state }) => state === "CONFIRMED"),
  );
  for (const { linkId } of orders) expect(await countTransfers(lab, linkId)).toBe(1);
}

test("behavior: a node that answers everything but sends delays a relay, and the other node gets it", async () => {
  lab.proxy.fault = (calls) => (calls.some(isSend) ? { kind: "hang" } : undefined);
  const orders = await newOrders(lab, 2);
  await queueAll(lab, orders);
  await waitUntilSigned(lab, orders);
  await waitUntilConfirmed(orders);
}, 120_000);

test("behavior: with one node that never responds, relays are signed, sent and confirmed by the other", async () => {
  const asked = nodes.map(({ methods }) => methods.length);
  lab.proxy.fault = () => ({ kind: "hang" });
  const orders = await newOrders(lab, 5);
  for (const order of orders)
    expect(await payWithRetries(lab, order)).toMatchObject({ body: { success: true } });
  await waitUntilConfirmed(orders);
  const [hung = 0, answered = 0] = nodes.map((node, index) => countFromSender(node, asked[index] ?? 0));
  expect(hung).toBeLessThan(answered);
}, 120_000);

test("behavior: each relay of a pass that takes longer than a head is valid is resent, without starving later ones", async () => {
  for (const node of nodes)
    node.fault = (calls) =>
      calls.some(isSend) ? { kind: "error", code: -32000, message: "the pool is full" } : undefined;
  await lab.rpc("evm_setAutomine", [false]);
  const orders: Order[] = [];
  while (orders.length < RELAYS) orders.push(await contractOrder(lab, YES_SAYER));
  await queueAll(lab, orders);
  const pendingOf = async () => (await relaysOf(lab)).filter(({ state }) => state !== "CONFIRMED");
  await waitUntilSigned(lab, orders);
  expect(await pendingOf()).toHaveLength(RELAYS);
  for (const node of nodes) {
    node.fault = () => undefined;
    node.delay = (calls) => (calls.some(isSend) ? Bun.sleep(SEND_MS) : undefined);
  }
  await waitFor("all to be broadcast", async () => {
    // those before the last one are due in every pass
    await lab.sql`update relay_attempts set last_sent_at = now() - interval '3 seconds'`;
    return (await pendingOf()).every(({ state }) => state === "BROADCAST");
  });
  await lab.rpc("evm_setAutomine", [true]);
  await lab.rpc("evm_mine");
  await waitUntilConfirmed(orders);
}, 120_000);

test("behavior: nodes that take half as long as a head is valid: payments of keys and of contracts are relayed", async () => {
  const orders = [await newOrder(lab), await contractOrder(lab, YES_SAYER)];
  const worker = lab.service.pidOf("worker");
  process.kill(worker, "SIGSTOP");
  await queueAll(lab, orders);
  for (const node of nodes) node.delay = () => Bun.sleep(SLOW_MS);
  process.kill(worker, "SIGCONT");
  await waitUntilSigned(lab, orders);
  for (const node of nodes) node.delay = () => undefined;
  await waitUntilConfirmed(orders);
}, 120_000);

test("behavior: with one node that stopped following the chain, relays go through the other from simulation to settlement", async () => {
  const order = await newOrder(lab);
  const number = await readHead(lab);
  Object.assign(lab.env, { RELAY_HEAD_MAX_AGE_S: String(HEAD_MAX_AGE_S) });
  await lab.service.kill("worker");
  lab.proxy.fault = (calls) => stuckAt(number, calls);
  await lab.rpc("anvil_mine", [BLOCKS_BEHIND]);
  await lab.rpc("evm_setIntervalMining", [1]);
  await waitFor("its newest block to be old", () => isOlder(number, HEAD_MAX_AGE_S));
  await lab.service.start("worker");
  await queueAll(lab, [order]);
  await waitUntilSigned(lab, [order]);
  await waitUntilConfirmed([order]);
  // without blocks of their own every second, a head is older than that before the next payments are signed
  delete lab.env.RELAY_HEAD_MAX_AGE_S;
  await lab.service.restart("worker");
}, 120_000);

/** Whichever of them is asked first. */
async function payBeside(fault: FaultProxy["fault"]): Promise<void> {
  for (const one of nodes) {
    for (const node of nodes) node.fault = node === one ? fault : () => undefined;
    const orders = [await newOrder(lab), await contractOrder(lab, YES_SAYER)];
    await queueAll(lab, orders);
    await waitUntilSigned(lab, orders);
    await waitUntilConfirmed(orders);
  }
}

test.each([
  ["answers everything by an error of its own, as one whose key was withdrawn", () => true],
  ["takes no transactions", (calls: readonly ProxiedCall[]) => calls.some(isSend)],
] as const)(
  "behavior: with a node that %s, payments go through the other",
  async (_, isRefused) => {
    await payBeside((calls) =>
      isRefused(calls) ? { kind: "error", code: -32000, message: "unauthorized" } : undefined,
    );
  },
  120_000,
);

/** Answers as one whose state is gone or is being restored, and which follows the chain all the same. */
function withoutState(method: string): FaultProxy["fault"] {
  return (calls) => {
    const lost = new Set(calls.filter((call) => call.method === method).map(({ id }) => id));
    const error = { code: -32000, message: "missing trie node 0xab (path )" };
    const spoil = (one: { id: number }) => (lost.has(one.id) ? { jsonrpc: "2.0", id: one.id, error } : one);
    const edit = (answer: unknown) =>
      Array.isArray(answer) ? answer.map(spoil) : spoil(answer as { id: number });
    return { kind: "edit", edit };
  };
}

test.each(["eth_call", "eth_getBalance"])(
  "behavior: with a node that has blocks but no state for %s, payments go through the other",
  (method) => payBeside(withoutState(method)),
  120_000,
);
