/** A prepared refund whose money has left in the meantime: what its owner signs is refused. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { toHex } from "viem";
import { encodePasskeySignature } from "../../core/chain/passkey-signature.ts";
import type { UserOperation } from "../../core/chain/user-operation.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { localAccount } from "../../local/chain/accounts.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { fundUsdc, readUsdcBalance } from "../../local/chain/usdc.ts";
import { buildUserOperationCall } from "../support/account-on-chain.ts";
import type { Answer } from "../support/http-client.ts";
import { refundLab } from "../support/refund-lab.ts";
import { expectRefusal } from "../support/sends.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { waitForReceipt } from "../support/wait-for-receipt.ts";
import { startWorld, type World } from "../support/world.ts";

setDefaultTimeout(120_000);
const STRANGER = localAccount(5).address.toLowerCase() as Hex;

let world: World;
let sql: Sql;
let merchant: Merchant;

beforeAll(async () => {
  world = await startWorld();
  sql = openDatabase(world.db.url, { name: "test", maxConnections: 4 });
  merchant = await signUp(world.baseUrl);
});
afterAll(async () => {
  await sql?.end();
  await world?.stop();
});

const { paidByX402, refund, confirm, waitForRefund, until } = refundLab(() => ({ world, sql, merchant }));

const stateOf = async (refundId: string) => {
  const [row] = await sql<{ state: string }[]>`select state from wallet_operations where id = ${refundId}`;
  return row?.state;
};

/** Anybody who has seen the signature can have the operation executed. */
async function submitByStranger({ userOperation, passkeyChallenge }: Answer["body"]): Promise<void> {
  const { response } = await merchant.passkey.authenticate(passkeyChallenge);
  const operation = {
    ...userOperation,
    nonce: BigInt(userOperation.nonce),
    callGasLimit: BigInt(userOperation.callGasLimit),
    verificationGasLimit: BigInt(userOperation.verificationGasLimit),
    preVerificationGas: 0n,
    maxFeePerGas: 0n,
    maxPriorityFeePerGas: 0n,
    signature: encodePasskeySignature(response, 0),
  } as UserOperation;
  const { to, data, gas } = buildUserOperationCall(operation, STRANGER);
  const hash = await callRpc(world.chain.rpcUrl, "eth_sendTransaction", [
    { from: STRANGER, to, data, gas: toHex(gas) },
  ]);
  const { status } = await waitForReceipt(world.chain.rpcUrl, hash);
  if (status !== "0x1") throw new Error("the EntryPoint refused the operation");
}

test("error: a refund is not confirmed once its payment has left the chain", async () => {
  const { linkId } = await paidByX402(1);
  const prepared = (await refund(linkId)).body;
  await sql`update transfers set status = 'ORPHANED', confirmed_at = null where link_id = ${linkId}`;
  expectRefusal(await confirm(prepared), 409, { field: "amount", issue: "exceeds_refundable" });
  expect(await stateOf(prepared.refundId)).toBe("AWAITING_SIGNATURE");
  // back in its block, it is refunded
  await sql`update transfers set status = 'CONFIRMED', confirmed_at = now() where link_id = ${linkId}`;
  expect((await confirm(prepared)).status).toBe(202);
  await waitForRefund(prepared.refundId);
});

test("error: a refund is not confirmed after a cancelled one of the same payment was executed, indexed yet or not", async () => {
  const { linkId, payer } = await paidByX402(1);
  await until(async () => {
    const [row] =
      await sql`select from wallets where user_id = ${merchant.userId} and deployed_at is not null`;
    return row;
  });
  await fundUsdc(world.chain.rpcUrl, merchant.walletAddress as Hex, 5_000_000n);
  const ended = (await refund(linkId)).body;
  await merchant.client.post(`/v1/refunds/${ended.refundId}/cancel`, {});
  await world.kill("indexer");
  await submitByStranger(ended);
  const second = await refund(linkId);
  expect(second.status).toBe(201);
  // whatever has spent the nonce before this one's, the ledger does not know it yet
  expectRefusal(await confirm(second.body), 409, { issue: "ledger_behind" });
  // nor when the node that told the head was behind the one that told the nonce
  await sql`
    update wallet_operations
    set terms = jsonb_set(terms, '{headNumber}', '0')
    where id = ${second.body.refundId}`;
  expectRefusal(await confirm(second.body), 409, { issue: "ledger_behind" });
  expect(await stateOf(second.body.refundId)).toBe("AWAITING_SIGNATURE");
  await world.start("indexer");
  await waitForRefund(ended.refundId);
  expectRefusal(await confirm(second.body), 409, { field: "amount", issue: "exceeds_refundable" });
  expect(await stateOf(second.body.refundId)).toBe("AWAITING_SIGNATURE");
  expect(await readUsdcBalance(world.chain.rpcUrl, payer)).toBe(1_000_000n);
});
