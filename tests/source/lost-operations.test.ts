/** Operations without a row are read from their transactions; those with one, and those of other makers, are left as they are. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { taggedTransfers } from "../../core/chain/account-state.ts";
import { encodeTransfer } from "../../core/chain/usdc.ts";
import { buildUserOperation } from "../../core/chain/user-operation.ts";
import { userOperationHash } from "../../core/chain/user-operation-hash.ts";
import { CONTRACTS, type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { openChain } from "../../core/rpc/chain-client.ts";
import { openLog } from "../../core/runtime/log.ts";
import type { BlockContent, SeenOperation } from "../../indexer/source/decode-logs.ts";
import { withLostOperations } from "../../indexer/source/read-lost-operations.ts";
import { buildUserOperationCall } from "../support/account-on-chain.ts";
import { makeBlock } from "../support/ledger-lab.ts";
import { type OperationLab, openOperationLab } from "../support/operation-lab.ts";
import { randomAddress } from "../support/seed.ts";
import { NETWORK, startScriptedNode, USDC } from "./scripted-node.ts";
import { type RpcTransaction, SENDER, signCall } from "./signed-transaction.ts";

setDefaultTimeout(120_000);
const TAG: Hex = `0x${"3d".repeat(16)}`;
const items = [{ to: randomAddress(), amountUnits: 3_000_000n }];

let lab: OperationLab;
beforeAll(async () => {
  lab = await openOperationLab();
});
afterAll(() => lab?.stop());

type Ran = { seen: SeenOperation; transaction: RpcTransaction };

let nonce = 0;
async function run(data: Hex): Promise<Ran> {
  const sender = randomAddress();
  const operation = buildUserOperation({ sender, nonce: 0n, calls: [{ to: USDC, data }] });
  const call = buildUserOperationCall({ ...operation, signature: "0x01" }, SENDER);
  const transaction = await signCall(nonce++, call.data, CONTRACTS.entryPointV06);
  const userOpHash = userOperationHash(operation, NETWORKS[NETWORK].chainId);
  const seen = {
    ...{
      block: makeBlock(101),
      txHash: transaction.hash,
      logIndex: 1,
      previousLogIndex: -1,
      userOpHash,
      sender,
    },
    ...{ nonce: 0n, succeeded: true, gasUsed: 1n, revertData: undefined },
  };
  return { seen, transaction };
}
const OURS: Hex = taggedTransfers(USDC, items, TAG)[0]?.data ?? "0x";

/** The block of these after the look for lost ones, and the transactions that were asked for. */
async function look(ran: readonly Ran[]): Promise<{ operations: SeenOperation[]; asked: unknown[] }> {
  const node = startScriptedNode(1, {});
  node.answer = ({ method, params: [hash] }) =>
    method === "eth_getTransactionByHash"
      ? { result: ran.find(({ transaction }) => transaction.hash === hash)?.transaction ?? null }
      : undefined;
  const chain = openChain({ network: NETWORK, urls: [node.url], timeoutMs: 10_000 });
  try {
    const content: BlockContent = {
      ...{ block: makeBlock(101), transfers: [], spent: [], accountLogs: [], logCount: ran.length },
      operations: ran.map(({ seen }) => seen),
    };
    const term = { sql: lab.sql, chain, log: openLog("test", "silent"), network: NETWORK } as const;
    const [found] = await withLostOperations(term, [content]);
    const asked = node.calls.map(({ params: [hash] }) => hash);
    return { operations: found?.operations ?? [], asked };
  } finally {
    chain.close();
    await node.stop();
  }
}

test("an operation without a row gets its facts from its transaction", async () => {
  const lost = await run(OURS);
  const { operations, asked } = await look([lost]);
  expect(operations).toEqual([{ ...lost.seen, executed: expect.objectContaining({ tag: TAG, items }) }]);
  expect(asked).toEqual([lost.seen.txHash]);
});

test("one with a row is not read, even next to one without", async () => {
  const [known, lost] = [await run(OURS), await run(OURS)];
  const { id } = await lab.makeOperation();
  await lab.sql`update wallet_operations set user_op_hash = ${known.seen.userOpHash} where id = ${id}`;
  expect(await look([known])).toEqual({ operations: [known.seen], asked: [] });
  const { operations, asked } = await look([known, lost]);
  expect(operations.map(({ executed }) => executed?.tag)).toEqual([undefined, TAG]);
  expect(asked).toEqual([lost.seen.txHash]);
});

test("one that was not prepared here stays as it was seen", async () => {
  const foreign = await run(encodeTransfer(randomAddress(), 5n));
  expect((await look([foreign])).operations).toStrictEqual([foreign.seen]);
  expect(await look([])).toEqual({ operations: [], asked: [] });
});
