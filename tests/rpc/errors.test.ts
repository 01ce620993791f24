import { describe, expect, test } from "bun:test";
import { classifyRpcError, isRefusal, RpcResponseError, RpcTransportError } from "../../core/rpc/errors.ts";

const classify = (code: number, message: string, data?: unknown) =>
  classifyRpcError({ code, message, data }, "eth_x on a node");

describe("no verdict", () => {
  test.each([
    ["rate-limit", -32005, "limit exceeded"],
    ["rate-limit", -32007, "50/second request limit reached"],
    ["rate-limit", 429, "Your app has exceeded its compute units per second capacity"],
    ["rate-limit", -32000, "Too Many Requests"],
    ["not-ready", -32000, "header not found"],
    ["not-ready", -32000, "unknown block"],
    ["not-ready", -32000, "missing trie node 0xab (path )"],
    ["not-ready", -32602, "BlockOutOfRangeError: block height is 8 but requested was 10"],
    ["not-ready", -32000, "request timed out"],
    ["not-ready", -32603, "upstream connection reset, try again"],
    ["node-error", -32603, "Internal error"],
    ["node-error", -32002, "resource not here"],
  ] as const)("%s: %d %s", (kind, code, message) => {
    const error = classify(code, message);
    expect(error).toBeInstanceOf(RpcTransportError);
    expect(error).toMatchObject({ kind });
    expect(error.message).toBe(`eth_x on a node answered ${code}: ${message}`);
  });
});

describe("an error about something that every node knows", () => {
  const about = (method: string, ...params: unknown[]) =>
    classifyRpcError({ code: -32000, message: "unauthorized", data: undefined }, "a node", {
      method,
      params,
    });

  test.each([
    ["eth_chainId"],
    ["eth_getTransactionReceipt", "0x1"],
    ["eth_getBlockByNumber", "latest", false],
    ["eth_getTransactionCount", "0x1", "latest"],
  ])("is the node's own: %s %s", (method, ...params) => {
    expect(about(method, ...params)).toMatchObject({ kind: "node-error", isRefusal: true });
  });

  test.each([
    ["eth_getBlockByNumber", "finalized", false],
    ["eth_getBalance", "0x1", "0x10"],
    ["eth_sendRawTransaction", "0x"],
    ["eth_call", {}, "latest"],
    ["eth_getLogs", {}],
  ])("is an answer if it is about something else: %s %s", (method, ...params) => {
    expect(about(method, ...params)).toBeInstanceOf(RpcResponseError);
  });
});

describe("the chain's answer", () => {
  test.each([
    [3, "execution reverted: FiatTokenV2: invalid signature", "0x08c379a0"],
    [3, "execution reverted", undefined],
    [-32000, "execution reverted", undefined],
    [-32603, "EVM error InvalidFEOpcode", undefined],
    [-32000, "gas required exceeds allowance (21000)", undefined],
    [-32000, "nonce too low", undefined],
    [-32000, "already known", undefined],
    [-32003, "Insufficient funds for gas * price + value", undefined],
    [-32601, "the method eth_x does not exist", undefined],
    [-32602, "invalid argument 0: hex string without 0x prefix", undefined],
  ] as const)("%d %s", (code, message, data) => {
    const error = classify(code, message, data);
    expect(error).toBeInstanceOf(RpcResponseError);
    expect(error).toMatchObject({ rpcCode: code, data });
  });

  test.each([
    ["0xDEADBEEF", "0xdeadbeef"],
    ["Reverted 0xdeadbeef", "0xdeadbeef"],
    [{ data: "0xdeadbeef" }, "0xdeadbeef"],
    [{ data: { data: "0xdeadbeef" } }, "0xdeadbeef"],
    [{ code: 3, data: "0x" }, "0x"],
  ])("finds revert data in %j", (data, expected) => {
    expect(classify(-32015, "VM execution error", data)).toMatchObject({ data: expected });
  });

  test.each([["0xabc"], ["nonsense"], [{ see: "https://example.org" }], [17], [null]])(
    "%j is not revert data",
    (data) => {
      expect(classify(-32015, "VM execution error", data)).toMatchObject({ data: undefined });
    },
  );
});

describe("a refusal for which smaller requests may be the remedy", () => {
  test.each([
    [-32005, "query returned more than 10000 results"],
    [-32602, "range 12001 exceeds limit of 10000"],
    [-32614, "eth_getLogs is limited to a 5 range"],
    [-32005, "Maximum allowed number of requested blocks is 1000"],
    [-32000, "range is too large, max is 1k blocks"],
    [-32014, "maximum 10 calls in 1 batch"],
    [-32600, "too many requests in batch"],
    [31, "Batch of more than 3 requests is not allowed"],
    [-32603, "internal error"],
    [-32000, "query timed out"],
    [7, "words never seen before"],
  ])("%d %s", (code, message) => {
    expect(isRefusal(classify(code, message))).toBe(true);
  });

  test.each([
    [-32000, "Too Many Requests"],
    [-32007, "50/second request limit reached"],
    [429, "Your app has exceeded its compute units per second capacity"],
  ])("is not for a request rate limit: %d %s", (code, message) => {
    expect(isRefusal(classify(code, message))).toBe(false);
  });

  test("is not an error of another kind", () => {
    expect(isRefusal(new RpcTransportError("unreachable", "gone"))).toBe(false);
    expect(isRefusal(new Error("query returned more than 1 results"))).toBe(false);
  });
});
