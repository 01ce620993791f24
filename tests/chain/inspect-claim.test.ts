/** A claimed transaction is anybody's: what it wrote beside the token's logs is read and forgotten. */
import { afterEach, expect, test } from "bun:test";
import { inspectClaim } from "../../core/chain/inspect-claim.ts";
import { type Chain, openChain } from "../../core/rpc/chain-client.ts";
import type { RpcOutcome } from "../../core/rpc/node.ts";
import {
  blockOf,
  NETWORK,
  type ScriptedNode,
  startScriptedNode,
  transferLog,
} from "../source/scripted-node.ts";
import { randomAddress } from "../support/seed.ts";

let node: ScriptedNode;
let chain: Chain;
afterEach(async () => {
  chain?.close();
  await node?.stop();
});

test("only the token's logs of a claimed receipt are kept, and they decide", async () => {
  const [payer, recipient, stranger] = [randomAddress(), randomAddress(), randomAddress()];
  const foreign = { address: stranger, topics: [], data: "0x" as const };
  const logs = [
    foreign,
    transferLog(payer, recipient),
    foreign,
    { ...transferLog(payer, recipient), address: stranger },
  ];
  node = startScriptedNode(3, { 3: logs });
  const { block, receipts } = blockOf(3, logs);
  node.answer = ({ method }) => {
    if (method === "eth_getTransactionByHash") return { result: null };
    if (method === "eth_getTransactionReceipt") return { result: { ...receipts[0], blockHash: block.hash } };
    return undefined;
  };
  chain = openChain({ network: NETWORK, urls: [node.url], timeoutMs: 10_000 });
  const seen: RpcOutcome[] = [];
  const batch: Chain["batch"] = async (calls) => {
    const outcomes = await chain.batch(calls);
    seen.push(...outcomes);
    return outcomes;
  };
  const check = await inspectClaim(
    { ...chain, batch },
    {
      ...{ txHash: receipts[0]?.transactionHash ?? "0x", clientAddress: payer, recipient },
      ...{ amountUnits: 5n, payAmountUnits: null, createdBlock: null, isProven: false },
      ...{ createdAt: new Date(0), expiresAt: new Date(200_000) },
    },
  );
  expect(check).toMatchObject({ kind: "pays", logs: [{ logIndex: 1, authorizationNonce: undefined }] });
  expect(seen[0]).toMatchObject({ ok: true, result: { logs: [{ logIndex: "0x1" }] } });
});
