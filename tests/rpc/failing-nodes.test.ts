/** Nodes that answer, by errors of their own: the next one is asked, as when a node gives no answer. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "bun:test";
import { type Chain, openChain } from "../../core/rpc/chain-client.ts";
import { RpcResponseError } from "../../core/rpc/errors.ts";
import { startTestChain, type TestChain } from "../support/chain.ts";
import { setBackClock } from "../support/set-back-clock.ts";
import { type Fault, type FaultProxy, startFaultProxy } from "./fault-proxy.ts";

const TIMEOUT_MS = 5_000;
const UNAUTHORIZED: Fault = { kind: "error", code: -32000, message: "unauthorized" };
/** Creation code that reverts. */
const REVERTS = ["eth_call", [{ data: "0x60006000fd" }, "latest"]] as const;
const EMPTY_CALL = ["eth_call", [{ to: `0x${"00".repeat(20)}` }, "latest"]] as const;

let node: TestChain;
let first: FaultProxy;
let second: FaultProxy;
let chain: Chain;
beforeAll(async () => {
  node = await startTestChain();
});
beforeEach(() => {
  first = startFaultProxy(node.rpcUrl);
  second = startFaultProxy(node.rpcUrl);
});
afterEach(async () => {
  chain.close();
  await first.stop();
  await second.stop();
});
afterAll(() => node.stop());

function open(urls: readonly string[]): Chain {
  chain = openChain({ network: "base-sepolia", urls, timeoutMs: TIMEOUT_MS });
  return chain;
}

async function openBoth(): Promise<void> {
  await open([first.url, second.url]).refreshHeads();
  forgetLatency();
}

/** A busy machine makes it up: it must not order nodes. */
function forgetLatency(): void {
  for (const { health } of chain.nodes) health.latencyMs = 0;
}

const head = () => chain.request("eth_blockNumber", []);

function places(): number[] {
  forgetLatency();
  return chain.nodesByHealth().map((one) => chain.nodes.indexOf(one));
}

test.each([
  ["with HTTP 200", UNAUTHORIZED],
  ["with HTTP 400", { kind: "status", status: 400, body: '{"error":{"code":-32000,"message":"no key"}}' }],
] as [string, Fault][])(
  "an error about something that every node knows, %s, is followed by the next node",
  async (_, fault) => {
    await openBoth();
    first.fault = () => fault;
    expect(await head()).toMatch(/^0x/);
    expect(places()).toEqual([1, 0]);
  },
);

test("a node that does not report its chain id is followed by the next node", async () => {
  first.fault = () => UNAUTHORIZED;
  open([first.url, second.url]);
  expect(await head()).toMatch(/^0x/);
  expect(places()).toEqual([1, 0]);
});

test("a node that executes no calls goes to the end of the list, one whose call a contract refuses stays", async () => {
  await openBoth();
  await expect(chain.request(...REVERTS)).rejects.toBeInstanceOf(RpcResponseError);
  expect(places()).toEqual([0, 1]);
  first.fault = (calls) => (calls.some(({ method }) => method === "eth_call") ? UNAUTHORIZED : undefined);
  await expect(chain.request(...EMPTY_CALL)).rejects.toBeInstanceOf(RpcResponseError);
  expect(places()).toEqual([1, 0]);
  expect(await chain.request(...EMPTY_CALL)).toBe("0x");
});

test("a node is used again when its wait is over, even if the clock was set back meanwhile", async () => {
  open([first.url]);
  await head();
  first.fault = () => ({ kind: "status", status: 429, headers: { "retry-after": "30" } });
  await expect(head()).rejects.toThrow();
  const { health } = chain.nodes[0] ?? {};
  if (!health) throw new Error("no node");
  health.restUntilMs -= 29_000;
  first.fault = () => undefined;
  const setForward = setBackClock();
  try {
    expect(await head()).toMatch(/^0x/);
  } finally {
    setForward();
  }
});
