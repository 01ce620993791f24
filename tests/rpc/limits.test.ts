/** What a client of a limited node learns from it, and what it does not ask while the node wants no requests. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { newAdaptiveLimit, noteAccepted, noteRefused } from "../../core/rpc/adaptive-limit.ts";
import { type Chain, openChain } from "../../core/rpc/chain-client.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import { startTestChain, type TestChain } from "../support/chain.ts";
import { type Fault, type FaultProxy, startFaultProxy } from "./fault-proxy.ts";

const TIMEOUT_MS = 5_000;
const MINUTE_MS = 60_000;

let node: TestChain;
let proxy: FaultProxy;
let chain: Chain;
beforeAll(async () => {
  node = await startTestChain();
});
beforeEach(() => {
  proxy = startFaultProxy(node.rpcUrl);
  chain = openChain({ network: "base-sepolia", urls: [proxy.url], timeoutMs: TIMEOUT_MS });
});
afterEach(async () => {
  chain.close();
  await proxy.stop();
});
afterAll(() => node.stop());

const calls = (count: number) =>
  Array.from({ length: count }, () => ({ method: "eth_blockNumber", params: [] }));
const chainIdRequests = () => proxy.methods.filter((method) => method === "eth_chainId").length;
const firstNode = () => {
  const [only] = chain.nodes;
  if (!only) throw new Error("there is no node");
  return only;
};

describe("a learned limit", () => {
  const search = (cap: number, rounds: number) => {
    const limit = newAdaptiveLimit({ first: 50, max: 1_000 });
    for (let round = 0; round < rounds; round++)
      (limit.size > cap ? noteRefused : noteAccepted)(limit, limit.size, round);
    return limit.size;
  };

  test.each([1, 3, 10, 49, 50, 51, 999, 1_000])("ends at the node's own, %d, within 30 requests", (cap) => {
    expect(search(cap, 30)).toBe(cap);
  });

  test("counts concurrent refusals as one", () => {
    const limit = newAdaptiveLimit({ first: 64, max: 64 });
    for (let count = 0; count < 4; count++) noteRefused(limit, 64, 0);
    expect(limit.size).toBe(32);
  });

  test("retries a refused size after half a minute, and after twice the time when it is refused again", () => {
    const limit = newAdaptiveLimit({ first: 2, max: 8 });
    const settle = (nowMs: number) => {
      for (let round = 0; round < 8; round++)
        (limit.size > 2 ? noteRefused : noteAccepted)(limit, limit.size, nowMs);
    };
    settle(0);
    expect(limit.size).toBe(2);
    noteAccepted(limit, 2, MINUTE_MS / 2);
    expect(limit.size).toBe(2);
    noteAccepted(limit, 2, MINUTE_MS / 2 + 1);
    expect(limit.size).toBe(4);
    settle(MINUTE_MS);
    noteAccepted(limit, 2, 2 * MINUTE_MS);
    expect(limit.size).toBe(2);
    noteAccepted(limit, 2, 2 * MINUTE_MS + 1);
    expect(limit.size).toBe(4);
  });
});

describe("a batch that a node refuses because of its size", () => {
  const capped = (cap: number) => {
    proxy.fault = (asked) =>
      asked.length > cap ? { kind: "status", status: 413, body: "too large" } : undefined;
  };

  test("is sent in smaller ones, which is remembered", async () => {
    capped(10);
    expect(await chain.batch(calls(50))).toEqual(await chain.batch(calls(50)));
    const before = proxy.requests;
    const outcomes = await chain.batch(calls(50));
    expect(outcomes.map(({ ok }) => ok)).toEqual(Array.from({ length: 50 }, () => true));
    expect(proxy.requests - before).toBe(5);
  });

  test("down to single calls is sent in larger ones again, once the limit has expired", async () => {
    capped(1);
    await chain.batch(calls(8));
    const { batchCalls } = firstNode().health;
    expect(batchCalls.size).toBe(1);
    proxy.fault = () => undefined;
    await chain.batch(calls(2));
    expect(batchCalls.size).toBe(1);
    if (batchCalls.refused)
      batchCalls.refused = { ...batchCalls.refused, atMs: performance.now() - 11 * MINUTE_MS };
    await chain.batch(calls(8));
    expect(batchCalls.size).toBeGreaterThan(1);
  });

  test("is sent in pieces, of which only one that fails is sent again", async () => {
    capped(3);
    await chain.batch(calls(9));
    const before = proxy.methods.length;
    let asked = 0;
    proxy.fault = () => (++asked === 2 ? { kind: "status", status: 500 } : undefined);
    const outcomes = await chain.batch(calls(9));
    expect(outcomes.every(({ ok }) => ok)).toBe(true);
    expect(proxy.methods.length - before).toBe(12);
  });

  test("does not count as a failure of the node", async () => {
    capped(1);
    await chain.batch(calls(8));
    expect(firstNode().health.errorsInARow).toBe(0);
  });

  test("reports that not all of it was answered from one state of the node", async () => {
    expect((await chain.batchInOrder(calls(4))).together).toBe(4);
    capped(3);
    const { outcomes, together } = await chain.batchInOrder(calls(4));
    expect(outcomes).toHaveLength(4);
    expect(together).toBeLessThan(4);
  });

  test("is not sent again if every call fails as it would alone", async () => {
    await chain.batch(calls(2));
    const before = proxy.requests;
    const reverting = {
      method: "eth_call",
      params: [{ data: "0x63deadbeef60e01b60005260046000fd" }, "latest"],
    };
    const outcomes = await chain.batch([reverting, reverting]);
    expect(outcomes.map(({ ok }) => ok)).toEqual([false, false]);
    expect(proxy.requests - before).toBe(1);
  });
});

describe("a node that answers 429", () => {
  const limited: Fault = { kind: "status", status: 429, headers: { "retry-after": "1" } };

  test("gets no request before its Retry-After, no matter who asks and what else is answered", async () => {
    await chain.request("eth_blockNumber", []);
    let release = () => {};
    const slow = new Promise<void>((resolve) => {
      release = resolve;
    });
    proxy.delay = ([call]) => (call?.method === "eth_gasPrice" ? slow : undefined);
    // asked before the node is limited, answered after
    const early = chain.request("eth_gasPrice", []);
    proxy.fault = ([call]) => (call?.method === "eth_blockNumber" ? limited : undefined);
    const error = await chain
      .requestOn(firstNode(), "eth_blockNumber", [])
      .catch((reason: unknown) => reason);
    expect(error).toMatchObject({ kind: "rate-limit", retryAfterMs: 1_000 });
    proxy.fault = () => undefined;
    release();
    await early;
    const asked = proxy.requests;
    const refused = await chain
      .requestOn(firstNode(), "eth_blockNumber", [])
      .catch((reason: unknown) => reason);
    expect(refused).toBeInstanceOf(RpcTransportError);
    expect(refused).toMatchObject({ kind: "rate-limit" });
    expect(proxy.requests).toBe(asked);
    // the pool waits, then asks once
    expect(await chain.request("eth_blockNumber", [])).toMatch(/^0x/);
    expect(proxy.requests).toBe(asked + 1);
  });

  test.each([429, 500, 503])("or %d keeps its chain id", async (status) => {
    await chain.request("eth_blockNumber", []);
    proxy.fault = () => ({ kind: "status", status });
    await chain.requestOn(firstNode(), "eth_blockNumber", []).catch(() => undefined);
    proxy.fault = () => undefined;
    await chain.request("eth_blockNumber", []);
    expect(chainIdRequests()).toBe(1);
  });

  test("is asked for its chain id again after its connection was lost", async () => {
    await chain.request("eth_blockNumber", []);
    await proxy.stop();
    await chain.request("eth_blockNumber", []).catch(() => undefined);
    proxy = startFaultProxy(node.rpcUrl, { port: Number(new URL(proxy.url).port) });
    await chain.request("eth_blockNumber", []);
    expect(chainIdRequests()).toBe(1);
  });
});
