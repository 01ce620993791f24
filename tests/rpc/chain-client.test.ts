import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { type Chain, type ChainOptions, openChain } from "../../core/rpc/chain-client.ts";
import { RpcResponseError, RpcTransportError } from "../../core/rpc/errors.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { startTestChain, type TestChain } from "../support/chain.ts";
import { type Fault, type FaultProxy, startFaultProxy } from "./fault-proxy.ts";

/** Far above what a busy machine needs, for nodes that do answer. */
const TIMEOUT_MS = 5_000;
/** For nodes that do not. */
const SHORT_TIMEOUT_MS = 400;
/** Creation code that reverts with the four bytes 0xdeadbeef. */
const REVERTS = [{ data: "0x63deadbeef60e01b60005260046000fd" }, "latest"];

let node: TestChain;
let first: FaultProxy;
let second: FaultProxy;
let opened: Chain[] = [];
beforeAll(async () => {
  node = await startTestChain();
});
beforeEach(() => {
  first = startFaultProxy(node.rpcUrl);
  second = startFaultProxy(node.rpcUrl);
});
afterEach(async () => {
  for (const chain of opened) chain.close();
  opened = [];
  await first.stop();
  await second.stop();
});
afterAll(() => node.stop());

function open(options: Partial<ChainOptions> = {}): Chain {
  const given = { urls: [first.url, second.url], timeoutMs: TIMEOUT_MS, ...options };
  const chain = openChain({ network: "base-sepolia", ...given });
  opened.push(chain);
  return chain;
}

async function failureOf(promise: Promise<unknown>): Promise<RpcTransportError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof RpcTransportError)) throw new Error(`expected a transport error, got ${error}`);
  return error;
}

/** Both nodes are asked, and their latency, which a busy machine makes up, does not order them. */
async function refreshHeads(chain: Chain): Promise<void> {
  await chain.refreshHeads();
  for (const { health } of chain.nodes) health.latencyMs = 0;
}

const head = (chain: Chain) => chain.request("eth_blockNumber", []);
const countOf = (method: string) => first.methods.filter((one) => one === method).length;
const onMethod = (method: string, fault: Fault) => (calls: readonly { method: string }[]) =>
  calls.some((call) => call.method === method) ? fault : undefined;

async function until(isTrue: () => boolean | Promise<boolean>, deadlineMs = 30_000): Promise<void> {
  const endMs = Date.now() + deadlineMs;
  while (!(await isTrue())) {
    if (Date.now() > endMs) throw new Error(`not within ${deadlineMs} ms`);
    await Bun.sleep(5);
  }
}

describe("a request", () => {
  test("is answered by the first node, which proves its chain id once", async () => {
    expect(await head(open())).toBe(await callRpc(node.rpcUrl, "eth_blockNumber"));
    expect(second.requests).toBe(0);
    first.methods.length = 0;
    const chain = open({ urls: [first.url] }); // on a busy machine the other one may be the faster
    await Promise.all(Array.from({ length: 20 }, () => head(chain)));
    expect([countOf("eth_chainId"), countOf("eth_blockNumber")]).toEqual([1, 20]);
  });

  test.each([
    ["HTTP 500", { kind: "status", status: 500 }],
    ["HTTP 401", { kind: "status", status: 401, body: '{"error":{"code":-32600,"message":"no key"}}' }],
    ["a page of HTML", { kind: "status", status: 200, body: "<html>hello</html>" }],
    ["an empty body", { kind: "status", status: 200 }],
    ["JSON that is no answer", { kind: "status", status: 200, body: "[1]" }],
    ["no answer in time", { kind: "hang" }],
    ["a rate limit in JSON", { kind: "error", code: -32005, message: "daily request count exceeded" }],
    ["an internal error", { kind: "error", code: -32603, message: "internal error" }],
    [
      "anvil's error during a reorganisation",
      { kind: "error", code: -32602, message: "BlockOutOfRangeError: block height is 5 but requested was 9" },
    ],
    ["a block it does not know", { kind: "error", code: -32000, message: "header not found" }],
  ] as [string, Fault][])("goes to the second node after %s", async (_, fault) => {
    const chain = open(fault.kind === "hang" ? { timeoutMs: 3_000 } : {});
    await refreshHeads(chain);
    first.fault = onMethod("eth_blockNumber", fault);
    expect(await head(chain)).toBe(await callRpc(node.rpcUrl, "eth_blockNumber"));
    expect(second.methods).toContain("eth_blockNumber");
  });

  test("goes to the second node when nothing listens on the first", async () => {
    const chain = open({ urls: ["http://127.0.0.1:1", second.url] });
    expect(await head(chain)).toMatch(/^0x/);
    const error = await failureOf(head(open({ urls: ["http://127.0.0.1:1"] })));
    expect(error.kind).toBe("unreachable");
  });

  test("that the chain refuses is not repeated elsewhere, and carries the revert data", async () => {
    const chain = open();
    const failing = chain.request("eth_call", REVERTS);
    await expect(failing).rejects.toBeInstanceOf(RpcResponseError);
    await expect(failing).rejects.toMatchObject({ rpcCode: 3, data: "0xdeadbeef" });
    expect(second.requests).toBe(0);
    expect(chain.nodes[0]?.health.errorsInARow).toBe(0);
  });

  test("error: no node answers in time, and the caller waits no longer than three timeouts", async () => {
    first.fault = () => ({ kind: "hang" });
    second.fault = () => ({ kind: "hang" });
    const startedMs = performance.now();
    expect((await failureOf(head(open({ timeoutMs: SHORT_TIMEOUT_MS })))).kind).toBe("timeout");
    expect(performance.now() - startedMs).toBeLessThan(SHORT_TIMEOUT_MS * 3 + 30_000);
  });

  test("error: after close nothing is asked", async () => {
    const chain = open();
    chain.close();
    expect((await failureOf(head(chain))).kind).toBe("closed");
    expect(first.requests).toBe(0);
  });
});

describe("a node of another chain", () => {
  test("is never trusted", async () => {
    first.fault = onMethod("eth_chainId", {
      kind: "edit",
      edit: (answer) => ({ ...(answer as object), result: "0x1" }),
    });
    const chain = open();
    for (let i = 0; i < 5; i++) await head(chain);
    expect(first.methods.filter((method) => method !== "eth_chainId")).toEqual([]);
    expect(second.methods).toContain("eth_blockNumber");
  });

  test("alone is an error that names both ids", async () => {
    const error = await failureOf(head(open({ network: "base", urls: [first.url] })));
    expect(error.kind).toBe("wrong-chain");
    expect(error.message).toContain("84532");
    expect(error.message).toContain("8453");
    expect(first.methods).not.toContain("eth_blockNumber");
  });

  test("that changes its chain while unreachable is recognised when it comes back", async () => {
    const chain = open({ urls: [first.url] });
    await head(chain);
    await first.stop();
    expect((await failureOf(head(chain))).kind).toBe("unreachable");
    first = startFaultProxy(node.rpcUrl, { port: Number(new URL(first.url).port) });
    first.fault = onMethod("eth_chainId", {
      kind: "edit",
      edit: (answer) => ({ ...(answer as object), result: "0x2105" }),
    });
    expect((await failureOf(head(chain))).kind).toBe("wrong-chain");
  });
});

describe("a batch", () => {
  const calls = [
    { method: "eth_chainId", params: [] },
    { method: "eth_call", params: REVERTS },
    { method: "eth_blockNumber", params: [] },
  ];

  test("is one HTTP request whose items succeed or fail independently", async () => {
    const chain = open({ urls: [first.url] });
    await head(chain);
    const before = first.requests;
    const [id, reverted, number] = await chain.batch(calls);
    expect(first.requests).toBe(before + 1);
    expect(id).toEqual({ ok: true, result: "0x14a34" });
    expect(number).toEqual({ ok: true, result: await callRpc(node.rpcUrl, "eth_blockNumber") });
    if (!reverted || reverted.ok) throw new Error("the call should have reverted");
    expect(reverted.error).toBeInstanceOf(RpcResponseError);
    expect(reverted.error).toMatchObject({ data: "0xdeadbeef" });
  });

  test("keeps its order even if the node answers in another one", async () => {
    const chain = open({ urls: [first.url] });
    await head(chain);
    first.fault = () => ({ kind: "edit", edit: (answer) => (answer as unknown[]).toReversed() });
    const [id, , number] = await chain.batch(calls);
    expect(id).toEqual({ ok: true, result: "0x14a34" });
    expect(number?.ok).toBe(true);
  });

  test("an item that the node omitted decides nothing, the others are valid", async () => {
    const chain = open({ urls: [first.url] });
    await head(chain);
    first.fault = () => ({ kind: "edit", edit: (answer) => (answer as unknown[]).slice(0, 2) });
    const [id, , number] = await chain.batch(calls);
    expect(id?.ok).toBe(true);
    expect(number?.ok === false && number.error).toBeInstanceOf(RpcTransportError);
  });

  test("goes to the second node when the first refuses all of it", async () => {
    const chain = open();
    await refreshHeads(chain);
    first.fault = () => ({ kind: "error", code: -32005, message: "rate limited" });
    const [id] = await chain.batch(calls);
    expect(id).toEqual({ ok: true, result: "0x14a34" });
    expect(second.methods).toContain("eth_call");
  });

  test("of no calls sends nothing, of too many is an error of ours", async () => {
    const chain = open();
    expect(await chain.batch([])).toEqual([]);
    const tooMany = Array.from({ length: 1001 }, () => ({ method: "eth_chainId", params: [] }));
    await expect(chain.batch(tooMany)).rejects.toBeInstanceOf(RangeError);
  });
});

describe("rate limits", () => {
  const limited: Fault = { kind: "status", status: 429, headers: { "retry-after": "1" } };

  test("a node that said when to come back is not used until then", async () => {
    const chain = open();
    await refreshHeads(chain);
    first.fault = () => limited;
    await head(chain);
    const asked = first.requests;
    for (let i = 0; i < 10; i++) await head(chain);
    expect(first.requests).toBe(asked);
    first.fault = () => undefined;
    second.fault = () => ({ kind: "status", status: 503 }); // or it would stay the better one
    const isAskedAgain = () => first.requests > asked + 1;
    await until(() => head(chain).then(isAskedAgain, () => false));
  });

  test("the only node is waited for when the wait is short", async () => {
    const chain = open({ urls: [first.url] });
    await head(chain);
    let answers = 0;
    first.fault = () => (answers++ === 0 ? limited : undefined);
    const startedMs = performance.now();
    expect(await head(chain)).toMatch(/^0x/);
    expect(performance.now() - startedMs).toBeGreaterThan(900);
  });

  test("error: a long wait is reported immediately, with its length", async () => {
    const chain = open({ urls: [first.url] });
    await head(chain);
    first.fault = () => ({ ...limited, headers: { "retry-after": "30" } });
    const startedMs = performance.now();
    const error = await failureOf(head(chain));
    expect(error.kind).toBe("rate-limit");
    expect(error.retryAfterMs).toBeGreaterThan(29_000);
    expect(performance.now() - startedMs).toBeLessThan(29_000);
  });
});

describe("health", () => {
  const labels = (chain: Chain) => chain.nodesByHealth().map((one) => chain.nodes.indexOf(one));

  test("a failing node goes to the end of the list and returns once it responds", async () => {
    const chain = open();
    await refreshHeads(chain);
    first.fault = () => ({ kind: "status", status: 500 });
    await head(chain);
    expect(labels(chain)).toEqual([1, 0]);
    first.fault = () => undefined;
    await until(() => head(chain).then(() => labels(chain)[0] === 0));
  });

  test("callers do not pay for the probes of a hanging node", async () => {
    const timeoutMs = 4_000;
    const chain = open({ timeoutMs });
    await refreshHeads(chain);
    first.fault = () => ({ kind: "hang" });
    await head(chain);
    await until(() => (chain.nodes[0]?.health.probeAtMs ?? 0) <= performance.now());
    const asked = first.requests;
    const startedMs = performance.now();
    await head(chain);
    expect(performance.now() - startedMs).toBeLessThan(timeoutMs);
    await until(() => first.requests === asked + 1);
  });

  test("a node that lags more than three blocks goes to the end of the list", async () => {
    await callRpc(node.rpcUrl, "anvil_mine", ["0xa"]);
    const chain = open();
    const orderWith = async (blocks: number) => {
      const edit = (answer: unknown) => {
        const { result } = answer as { result: string };
        return { ...(answer as object), result: `0x${(Number(result) - blocks).toString(16)}` };
      };
      first.fault = onMethod("eth_blockNumber", { kind: "edit", edit });
      await refreshHeads(chain);
      return labels(chain);
    };
    expect(await orderWith(3)).toEqual([0, 1]);
    expect(await orderWith(4)).toEqual([1, 0]);
  });

  test("a second opinion comes from the requested node, or not at all", async () => {
    const chain = open();
    const [, other] = chain.nodes;
    if (!other) throw new Error("no second node");
    await chain.requestOn(other, "eth_blockNumber", []);
    expect(first.requests).toBe(0);
    expect(second.methods).toEqual(["eth_chainId", "eth_blockNumber"]);
    second.fault = () => ({ kind: "status", status: 500 });
    await failureOf(chain.requestOn(other, "eth_blockNumber", []));
    expect(first.requests).toBe(0);
  });
});

describe("credentials in a URL", () => {
  const KEY = "abcdef0123456789KEY";

  test("reach the node but nothing that is printed", async () => {
    const url = new URL(first.url);
    url.username = "operator";
    url.password = "p@ssw0rd-long";
    url.pathname = `/v3/${KEY}`;
    url.search = `?token=${KEY}2`;
    const chain = open({ urls: [url.href], timeoutMs: SHORT_TIMEOUT_MS });
    await head(chain);
    const basic = Buffer.from("operator:p@ssw0rd-long").toString("base64");
    expect(first.lastHeaders.get("authorization")).toBe(`Basic ${basic}`);

    first.fault = () => ({
      kind: "error",
      code: -32000,
      message: `project ${KEY} (operator) is not allowed`,
    });
    const errors: unknown[] = [await head(chain).catch((error: unknown) => error)];
    first.fault = () => ({ kind: "status", status: 500, body: KEY });
    errors.push(await head(chain).catch((error: unknown) => error));
    first.fault = () => ({ kind: "hang" });
    errors.push(await head(chain).catch((error: unknown) => error));
    await first.stop();
    errors.push(await head(chain).catch((error: unknown) => error));

    const printed = [...errors, chain.nodes].map(
      (value) => `${Bun.inspect(value)} ${JSON.stringify(value)} ${value}`,
    );
    expect(errors).toHaveLength(4);
    for (const secret of [KEY, "operator", "p@ssw0rd", "p%40ssw0rd", basic]) {
      expect(printed.filter((text) => text.includes(secret))).toEqual([]);
    }
    expect(printed[0]).toContain("is not allowed");
  });

  test("error: an invalid URL is refused without being repeated", () => {
    expect(() => open({ urls: [`ftp://user:${KEY}@example.org`] })).toThrow(
      /^RPC URL number 1 of base-sepolia is not/,
    );
    expect(() => open({ urls: [first.url, KEY] })).toThrow(/^RPC URL number 2/);
    expect(() => open({ urls: [] })).toThrow(RangeError);
  });
});

describe("block announcements", () => {
  test("arrive for a new block, again after the node was unavailable, and not after they were stopped", async () => {
    let restarted = await startTestChain();
    const { port } = restarted;
    const chain = open({ urls: [restarted.rpcUrl] });
    let announced: number[] = [];
    const stop = chain.onNewHead(({ blockNumber }) => announced.push(blockNumber));
    await until(async () => {
      await callRpc(restarted.rpcUrl, "evm_mine");
      return announced.length > 0;
    });
    expect(announced[0]).toBeGreaterThan(0);

    await restarted.stop();
    announced = [];
    restarted = await startTestChain({ port });
    await until(async () => {
      await callRpc(restarted.rpcUrl, "evm_mine");
      return announced.length > 0;
    });

    stop();
    announced = [];
    await callRpc(restarted.rpcUrl, "evm_mine");
    await Bun.sleep(50);
    expect(announced).toEqual([]);
    await restarted.stop();
  });

  test("do not arrive without a WebSocket, and nothing else is affected", async () => {
    const chain = open();
    const stop = chain.onNewHead(() => {
      throw new Error("there is no WebSocket here");
    });
    expect(await head(chain)).toMatch(/^0x/);
    stop();
  });
});
