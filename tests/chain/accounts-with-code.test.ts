import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { codeSizesCall, readHaveCode } from "../../core/chain/accounts-with-code.ts";
import { CONTRACTS, type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { type Chain, openChain } from "../../core/rpc/chain-client.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { type Fault, type FaultProxy, startFaultProxy } from "../rpc/fault-proxy.ts";
import { startTestChain, type TestChain } from "../support/chain.ts";
import { randomAddress } from "../support/seed.ts";

const ACCOUNTS_OF_A_LARGE_BATCH = 150;
/** EIP-7702: what the code of an account with a key is while it delegates. */
const DELEGATION: Hex = `0xef0100${"ab".repeat(20)}`;

let node: TestChain;
let proxy: FaultProxy;
let chain: Chain;

beforeAll(async () => {
  node = await startTestChain();
  proxy = startFaultProxy(node.rpcUrl);
  chain = openChain({ network: "base-sepolia", urls: [proxy.url], timeoutMs: 5_000 });
}, 120_000);

afterEach(() => {
  proxy.fault = () => undefined;
  proxy.methods.length = 0;
});

afterAll(async () => {
  chain?.close();
  await proxy?.stop();
  await node?.stop();
});

async function askHaveCode(accounts: readonly Hex[]): Promise<boolean[]> {
  const [outcome] = await chain.batch([codeSizesCall(accounts)]);
  return readHaveCode(chain, accounts, outcome);
}

describe("which accounts have code", () => {
  test("one call tells contracts and delegating accounts apart from others, in their order", async () => {
    const delegating = randomAddress();
    await callRpc(node.rpcUrl, "anvil_setCode", [delegating, DELEGATION]);
    const accounts = [
      ...[randomAddress(), NETWORKS["base-sepolia"].usdc.address, randomAddress()],
      ...[delegating, CONTRACTS.multicall3, randomAddress()],
    ];
    expect(await askHaveCode(accounts)).toEqual([false, true, false, true, true, false]);
    expect(proxy.methods.filter((method) => method === "eth_getCode")).toEqual([]);
  });

  test("sees the code of a single account", async () => {
    expect(await askHaveCode([CONTRACTS.multicall3])).toEqual([true]);
    expect(await askHaveCode([randomAddress()])).toEqual([false]);
  });

  test("finds the one with code among as many as a relay carries", async () => {
    const accounts = Array.from({ length: ACCOUNTS_OF_A_LARGE_BATCH }, () => randomAddress());
    accounts[97] = CONTRACTS.multicall3;
    expect((await askHaveCode(accounts)).flatMap((hasCode, index) => (hasCode ? [index] : []))).toEqual([97]);
  });

  const refusals: [string, Fault][] = [
    ["refuses calls without a recipient", { kind: "error", code: -32602, message: "missing field `to`" }],
    ["answers them with nothing", { kind: "edit", edit: withResult("0x") }],
    ["answers them with too little", { kind: "edit", edit: withResult(`0x${"00".repeat(32)}`) }],
    ["answers them with something else", { kind: "edit", edit: withResult(null) }],
  ];
  for (const [what, fault] of refusals) {
    test(`a node that ${what} is asked for the code of each account`, async () => {
      proxy.fault = (calls) => (calls.some(({ method }) => method === "eth_call") ? fault : undefined);
      expect(await askHaveCode([randomAddress(), CONTRACTS.multicall3])).toEqual([false, true]);
      expect(proxy.methods.filter((method) => method === "eth_getCode")).toHaveLength(2);
    });
  }

  test("error: without either answer from the node, an error is thrown", async () => {
    const accounts = [randomAddress()];
    proxy.fault = () => ({ kind: "error", code: -32000, message: "header not found" });
    await expect(readHaveCode(chain, accounts, undefined)).rejects.toBeInstanceOf(Error);
    proxy.fault = () => ({ kind: "status", status: 503 });
    await expect(readHaveCode(chain, accounts, undefined)).rejects.toBeInstanceOf(RpcTransportError);
  });
});

function withResult(result: unknown) {
  return (answer: unknown) => {
    const change = (one: object) => ({ ...one, result });
    return Array.isArray(answer) ? answer.map(change) : change(answer as object);
  };
}
