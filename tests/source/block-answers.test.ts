/** Headers and receipts as nodes answer them: what is asked for, and what proves nothing. */
import { describe, expect, test } from "bun:test";
import { receiptsRootOf } from "../../core/chain/receipts-root.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import { headerCall, need, parseHeader } from "../../indexer/source/block-header.ts";
import { provenLogs, readReceipts, receiptsCall } from "../../indexer/source/verified-block.ts";
import { makeBlock, randomHash } from "../support/ledger-lab.ts";
import { randomAddress } from "../support/seed.ts";
import { blockOf, transferLog } from "./scripted-node.ts";

describe("a header", () => {
  test("is requested by height or tag, without its transactions", () => {
    expect(headerCall(16)).toEqual({ method: "eth_getBlockByNumber", params: ["0x10", false] });
    expect(headerCall("safe")).toEqual({ method: "eth_getBlockByNumber", params: ["safe", false] });
  });

  test("that is null belongs to a block the node does not know", () => {
    expect(parseHeader(null)).toBeUndefined();
    expect(() => parseHeader({})).toThrow(RpcTransportError);
  });

  test("is proven when its fields make its block's hash", () => {
    const { block } = blockOf(3, [transferLog(randomAddress(), randomAddress())]);
    const { gasUsed: _, ...incomplete } = block;
    const isProven = (header: object) => parseHeader(header)?.isHashProven;
    expect(isProven(block)).toBe(true);
    const blank = `0x${"00".repeat(256)}`;
    for (const change of [{ logsBloom: blank }, { requestsHash: block.receiptsRoot }, { hash: randomHash() }])
      expect(isProven({ ...block, ...change })).toBe(false);
    expect(isProven(incomplete)).toBe(false);
  });

  test("that is missing from a batch, or answered with an error, throws", () => {
    const error = new RpcTransportError("timeout", "too slow");
    expect(need({ ok: true, result: 7 })).toBe(7);
    expect(() => need({ ok: false, error })).toThrow(error);
    expect(() => need(undefined)).toThrow("too few results");
  });
});

describe("receipts", () => {
  const empty = { ...makeBlock(100), receiptsRoot: receiptsRootOf([]) };

  test("are requested by the block's hash", () => {
    expect(receiptsCall(empty)).toMatchObject({ method: "eth_getBlockReceipts", params: [empty.hash] });
  });

  test("that match the header's root prove its logs", () => {
    expect(provenLogs(empty, readReceipts([]))).toEqual([]);
    expect(() => provenLogs(makeBlock(100), readReceipts([]))).toThrow("the receipts do not make its root");
  });

  test.each([
    ["null", null],
    ["not a list", { logs: [] }],
    ["a list with one that has no logs", [{ logs: [] }, {}]],
    ["a list with null", [null]],
  ])("prove nothing if the answer is %s", (_what, answer) => {
    expect(() => provenLogs(empty, readReceipts(answer))).toThrow("no receipts were answered");
  });
});
