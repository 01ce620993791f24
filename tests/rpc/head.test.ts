import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Chain, openChain } from "../../core/rpc/chain-client.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import { parseHeader, readHead } from "../../core/rpc/head.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { startTestChain, type TestChain } from "../support/chain.ts";

let node: TestChain;
let chain: Chain;
beforeAll(async () => {
  node = await startTestChain();
  chain = openChain({ network: "base-sepolia", urls: [node.rpcUrl], timeoutMs: 5_000 });
});
afterAll(async () => {
  chain.close();
  await node.stop();
});

test("the head is the block just mined, with its given time, on top of the previous head", async () => {
  const before = await readHead(chain);
  await callRpc(node.rpcUrl, "anvil_setNextBlockBaseFeePerGas", ["0x2540be400"]);
  await callRpc(node.rpcUrl, "evm_mine", [before.timestampS + 12]);
  const head = await readHead(chain);
  expect(head).toMatchObject({
    number: before.number + 1,
    parentHash: before.hash,
    timestampS: before.timestampS + 12,
    baseFeePerGas: 10_000_000_000n,
    logsBloom: `0x${"00".repeat(256)}`,
  });
  expect(head.hash).not.toBe(before.hash);
});

test("a block that the node does not know is undefined, a broken one is no answer", async () => {
  expect(parseHeader(await chain.request("eth_getBlockByNumber", ["0xffffff", false]))).toBeUndefined();
  const block = (await chain.request("eth_getBlockByNumber", ["latest", false])) as Record<string, unknown>;
  expect(parseHeader(block)?.hash).toBe(block.hash as `0x${string}`);
  for (const broken of [
    { ...block, hash: "0x12" },
    { ...block, number: 7 },
    { ...block, timestamp: undefined },
    "block",
  ]) {
    expect(() => parseHeader(broken)).toThrow(RpcTransportError);
  }
});
