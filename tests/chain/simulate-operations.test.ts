/** Simulations of operations of different accounts in one request, where nodes answer some of them with errors. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type SimulatedOperation, simulateOperations } from "../../core/chain/simulate-operations.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { type Chain, openChain } from "../../core/rpc/chain-client.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import { fieldOf } from "../../core/rpc/parse-answers.ts";
import { type FaultProxy, type ProxiedCall, startFaultProxy } from "../rpc/fault-proxy.ts";
import {
  payShop,
  RELAYER,
  signOperation,
  startWalletWorld,
  type WalletWorld,
} from "../support/passkey-wallets.ts";

type RpcErrorJson = { code: number; message: string };

const OUT_OF_GAS: RpcErrorJson = { code: -32_000, message: "out of gas" };
const TIMED_OUT: RpcErrorJson = { code: -32_000, message: "execution timed out" };

let world: WalletWorld;
let node: FaultProxy;
let chain: Chain;
let operations: readonly SimulatedOperation[];

beforeAll(async () => {
  world = await startWalletWorld();
  node = startFaultProxy(world.rpcUrl);
  chain = openChain({ network: "base-sepolia", urls: [node.url], timeoutMs: 5_000 });
  operations = await Promise.all(Array.from({ length: 3 }, signed));
});
afterAll(async () => {
  chain?.close();
  await node?.stop();
  await world?.stop();
});

async function signed(): Promise<SimulatedOperation> {
  const { passkey, address, deployment } = await world.newWallet();
  const call = payShop(1_000_000n);
  const operation = await signOperation(passkey, await world.operationOf(address, [call]));
  return { operation, deployment, items: [], before: [] };
}

/** Answers the calls that run these accounts' operations with an error. */
function failing(error: RpcErrorJson, senders: readonly Hex[]): FaultProxy["fault"] {
  const isHit = ({ method, params }: ProxiedCall) =>
    method === "eth_call" && senders.some((sender) => JSON.stringify(params).includes(sender.slice(2)));
  return (calls) => {
    const hit = new Set(calls.filter(isHit).map(({ id }) => id));
    const spoil = (answer: unknown) => {
      const id = Number(fieldOf(answer, "id"));
      return hit.has(id) ? { jsonrpc: "2.0", id, error } : answer;
    };
    return { kind: "edit", edit: (answer) => (Array.isArray(answer) ? answer.map(spoil) : spoil(answer)) };
  };
}

async function verdictsWith(error: RpcErrorJson, senders: readonly Hex[]) {
  node.fault = failing(error, senders);
  try {
    return await simulateOperations(chain, RELAYER, operations);
  } finally {
    node.fault = () => undefined;
  }
}

const senderOf = ({ operation }: SimulatedOperation) => operation.sender;

describe("an operation that nodes cannot simulate", () => {
  test.each([OUT_OF_GAS, TIMED_OUT])(
    "is held back alone when nodes answer $message: the others pass",
    async (error) => {
      const [, second] = operations.map(senderOf);
      const verdicts = await verdictsWith(error, [second ?? "0x"]);
      expect(verdicts).toMatchObject([{ ok: true }, { ok: false, action: "wait" }, { ok: true }]);
    },
  );

  test("error: without a verdict on any of them nothing is known", async () => {
    const simulated = verdictsWith(TIMED_OUT, operations.map(senderOf));
    await expect(simulated).rejects.toBeInstanceOf(RpcTransportError);
  });
});
