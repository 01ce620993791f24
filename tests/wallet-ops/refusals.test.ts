/** The contract's refusals of refunds row by row, and what a send meets at the token, the EntryPoint and a changed set of owners. */

import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  setDefaultTimeout,
  test,
} from "bun:test";
import { encodeFunctionData, parseAbi, toHex } from "viem";
import { encodeAddOwner, encodeRemoveOwner } from "../../core/chain/passkey-account.ts";
import { encodePasskeySignature } from "../../core/chain/passkey-signature.ts";
import { encodeTransfer } from "../../core/chain/usdc.ts";
import type { UserOperation } from "../../core/chain/user-operation.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { RETURN_BLOCKS } from "../../core/domain/reorg-depth.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { localAccount } from "../../local/chain/accounts.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { fundEth, fundUsdc, readUsdcBalance } from "../../local/chain/usdc.ts";
import { buildUserOperationCall } from "../support/account-on-chain.ts";
import { beginWithinDay } from "../support/begin-within-day.ts";
import type { Answer } from "../support/http-client.ts";
import { randomAddress, USDC } from "../support/indexer-lab.ts";
import { refundLab } from "../support/refund-lab.ts";
import { confirmSend, expectRefusal, prepareSend, waitForSend } from "../support/sends.ts";
import { type Merchant, newPasskey, signUp } from "../support/sign-up.ts";
import { waitForReceipt } from "../support/wait-for-receipt.ts";
import { startWorld, type World } from "../support/world.ts";

setDefaultTimeout(120_000);
const TOKEN_OWNER = localAccount(9).address;
const STRANGER = localAccount(5).address.toLowerCase() as Hex;
const TOKEN = parseAbi([
  "function pause()",
  "function unpause()",
  "function blacklist(address account)",
  "function unBlacklist(address account)",
]);

let world: World;
let sql: Sql;
let merchant: Merchant;

const { until, paidByX402, refund, confirm, refunded, waitForRefund } = refundLab(() => ({
  ...{ world, sql, merchant },
}));

beforeAll(async () => {
  world = await startWorld();
  sql = openDatabase(world.db.url, { name: "test", maxConnections: 4 });
  await callRpc(world.chain.rpcUrl, "anvil_autoImpersonateAccount", [true]);
  merchant = await funded(5_000_000n);
});
afterEach(() => world.startMissing());
beforeEach(beginWithinDay);
afterAll(async () => {
  await sql?.end();
  await world?.stop();
});

/** Deployed by its job. */
async function funded(units: bigint): Promise<Merchant> {
  const made = await signUp(world.baseUrl);
  await fundUsdc(world.chain.rpcUrl, made.walletAddress as Hex, units);
  await until(async () => {
    const [wallet] = await sql`
      select from wallets where user_id = ${made.userId} and deployed_at is not null`;
    return wallet;
  });
  return made;
}

async function transact(from: Hex, to: Hex, data: Hex, gas = 300_000n): Promise<string> {
  const { rpcUrl } = world.chain;
  const hash = await callRpc(rpcUrl, "eth_sendTransaction", [{ from, to, data, gas: toHex(gas) }]);
  return (await waitForReceipt(rpcUrl, hash)).status;
}

async function refusedOnce(sendId: string): Promise<void> {
  await until(async () => {
    const [row] = await sql`
      select from wallet_operations where id = ${sendId} and signature_refused_block is not null`;
    return row;
  });
}

async function tokenCall(name: "pause" | "unpause"): Promise<void>;
async function tokenCall(name: "blacklist" | "unBlacklist", account: Hex): Promise<void>;
async function tokenCall(name: "pause" | "unpause" | "blacklist" | "unBlacklist", account?: Hex) {
  const data =
    name === "pause" || name === "unpause"
      ? encodeFunctionData({ abi: TOKEN, functionName: name })
      : encodeFunctionData({ abi: TOKEN, functionName: name, args: [account as Hex] });
  if ((await transact(TOKEN_OWNER, USDC, data)) !== "0x1") throw new Error(`${name} reverted`);
}

const ask = (amount = "1") =>
  merchant.client.post("/v1/wallets/send/prepare", { to: randomAddress(), amount });

describe("the token", () => {
  test("error: a paused token is payment_not_allowed for a send and a refund", async () => {
    const { linkId } = await paidByX402(1);
    await tokenCall("pause");
    const answers = [await ask(), await refund(linkId)];
    await tokenCall("unpause");
    for (const answer of answers) expectRefusal(answer, 403, { issue: "payment_not_allowed", position: 0 });
    expect((await ask()).status).toBe(201);
  });

  test("error: a blocked sender or payee of a refund is payment_not_allowed, another address is accepted", async () => {
    const { linkId, payer } = await paidByX402(1);
    const wallet = merchant.walletAddress as Hex;
    await tokenCall("blacklist", wallet);
    const sender = await ask();
    await tokenCall("unBlacklist", wallet);
    expectRefusal(sender, 403, { issue: "payment_not_allowed" });
    await tokenCall("blacklist", payer);
    expectRefusal(await refund(linkId), 403, { issue: "payment_not_allowed", to: payer });
    expect((await refund(linkId, { toAddress: randomAddress() })).status).toBe(201);
  });
});

describe("a refund", () => {
  test("error: of more than the wallet's balance is insufficient_funds", async () => {
    const { linkId } = await paidByX402(1);
    const from = merchant.walletAddress as Hex;
    const units = await readUsdcBalance(world.chain.rpcUrl, from);
    await fundEth(world.chain.rpcUrl, from, 10n ** 18n);
    await transact(from, USDC, encodeTransfer(STRANGER, units - 999_999n));
    expectRefusal(await refund(linkId), 409, { field: "amount", issue: "insufficient_funds" });
    await transact(STRANGER, USDC, encodeTransfer(from, units - 999_999n));
    expect((await refund(linkId)).status).toBe(201);
  });

  test("error: and preparing a request for one are over the gas budget, the request itself is not", async () => {
    const { linkId } = await paidByX402(1);
    const path = `/v1/payment-links/${linkId}/refund-requests`;
    await sql`
      insert into relay_budgets (network, scope, subject, day, used)
      values ('base', 'SENDER', ${merchant.userId}, (now() at time zone 'utc')::date, 5000000)`;
    const asked = await merchant.client.post(path, {});
    const answers = [
      await refund(linkId),
      await merchant.client.post(`/v1/refunds/${asked.body.refundId}/prepare`, {}),
    ];
    await sql`delete from relay_budgets where network = 'base'`;
    expect(asked.status).toBe(201);
    for (const answer of answers) {
      expectRefusal(answer, 429, { issue: "gas_budget" });
      expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(0);
    }
  });

  test("error: signed on another origin, without verification or by another passkey is not_verified", async () => {
    const { linkId } = await paidByX402(1);
    const stranger = await newPasskey(world.baseUrl);
    const signers = [
      ({ passkeyChallenge }: Answer["body"]) =>
        merchant.passkey.authenticate(passkeyChallenge, { origin: "http://evil.example" }),
      ({ passkeyChallenge }: Answer["body"]) =>
        merchant.passkey.authenticate(passkeyChallenge, { userVerified: false }),
      ({ passkeyChallenge: { challenge, rpId } }: Answer["body"]) =>
        stranger.authenticate({ challenge, rpId }),
    ];
    for (const sign of signers) {
      const prepared = (await refund(linkId)).body;
      const { refundId, challengeId } = prepared;
      const path = `/v1/refunds/${refundId}/confirm`;
      const refused = await merchant.client.post(path, {
        challengeId,
        passkeyResponse: await sign(prepared),
      });
      expectRefusal(refused, 400, { field: "passkeyResponse", issue: "not_verified" });
      expectRefusal(await confirm(prepared), 400, { field: "challengeId", issue: "invalid_or_expired" });
      expectRefusal(await merchant.client.post(`/v1/refunds/${refundId}/cancel`, {}), 409, {
        issue: "EXPIRED",
      });
    }
  });

  test("error: the challenge of another refund, and an expired one, are invalid_or_expired", async () => {
    const { linkId } = await paidByX402(1);
    const [first, second] = [
      (await refund(linkId, { amount: "0.4" })).body,
      (await refund(linkId, { amount: "0.4" })).body,
    ];
    const swapped = await merchant.client.post(`/v1/refunds/${first.refundId}/confirm`, {
      challengeId: second.challengeId,
      passkeyResponse: await merchant.passkey.authenticate(second.passkeyChallenge),
    });
    expectRefusal(swapped, 400, { field: "challengeId", issue: "invalid_or_expired" });
    await sql`update wallet_operations set expires_at = now() where id = ${first.refundId}`;
    expectRefusal(await confirm(first), 400, { field: "challengeId", issue: "invalid_or_expired" });
    await merchant.client.post(`/v1/refunds/${second.refundId}/cancel`, {});
  });

  test("confirmed in two tabs is sent once; the same assertion again gets the same answer, even later", async () => {
    const { linkId, payer } = await paidByX402(1);
    const prepared = [
      (await refund(linkId, { amount: "0.4" })).body,
      (await refund(linkId, { amount: "0.6" })).body,
    ];
    const bodies = await Promise.all(
      prepared.map(async ({ challengeId, passkeyChallenge }) => ({
        challengeId,
        passkeyResponse: await merchant.passkey.authenticate(passkeyChallenge),
      })),
    );
    const post = (index: number) =>
      merchant.client.post(`/v1/refunds/${prepared[index]?.refundId}/confirm`, bodies[index]);
    const answers = await Promise.all([post(0), post(1)]);
    const winner = answers.findIndex(({ status }) => status === 202);
    expectRefusal(answers[1 - winner] as Answer, 409, { issue: "nonce_taken" });
    const { refundId } = prepared[winner];
    await waitForRefund(refundId);
    const again = await post(winner);
    expect([again.status, again.body.refundId, again.body.status]).toEqual([202, refundId, "CONFIRMED"]);
    const other = await confirm(prepared[winner]);
    expectRefusal(other, 409, { issue: "already_confirmed" });
    expectRefusal(await post(1 - winner), 409, { issue: "nonce_taken" });
    const units = winner === 0 ? 400_000n : 600_000n;
    expect(await readUsdcBalance(world.chain.rpcUrl, payer)).toBe(units);
  });

  test("error: is operation_in_flight while another operation of the wallet is in flight", async () => {
    const { linkId } = await paidByX402(1);
    const path = `/v1/payment-links/${linkId}/refund-requests`;
    const asked = (await merchant.client.post(path, { amount: "0.5" })).body;
    await world.kill("worker");
    const sent = await prepareSend(merchant, { to: randomAddress(), amount: "0.1" });
    await confirmSend(merchant, sent);
    const details = { issue: "operation_in_flight", id: sent.sendId };
    expectRefusal(await refund(linkId), 409, details);
    const preparing = await merchant.client.post(`/v1/refunds/${asked.refundId}/prepare`, {});
    expectRefusal(preparing, 409, details);
    await world.start("worker");
    await waitForSend(merchant, sent.sendId);
    expect(await refunded(linkId)).toMatchObject({ amount: "1.000000" });
  });
});

describe("an operation", () => {
  test("error: with changed call data is refused by the EntryPoint; the signed one is executed", async () => {
    const prepared = await prepareSend(merchant, { to: randomAddress(), amount: "0.1" });
    const { userOperation, passkeyChallenge } = prepared;
    const { response } = await merchant.passkey.authenticate(passkeyChallenge);
    const thief = randomAddress();
    const real = {
      ...userOperation,
      nonce: BigInt(userOperation.nonce),
      callGasLimit: BigInt(userOperation.callGasLimit),
      verificationGasLimit: BigInt(userOperation.verificationGasLimit),
      ...{ preVerificationGas: 0n, maxFeePerGas: 0n, maxPriorityFeePerGas: 0n },
      signature: encodePasskeySignature(response, 0),
    } as UserOperation;
    const payee = prepared.summary.payments[0].to.slice(2);
    const callData = real.callData.replace(payee, thief.slice(2)) as Hex;
    expect(callData).not.toBe(real.callData);
    for (const [operation, status] of [
      [{ ...real, callData }, "0x0"],
      [real, "0x1"],
    ] as const) {
      const call = buildUserOperationCall(operation, STRANGER);
      expect(await transact(STRANGER, call.to, call.data, call.gas)).toBe(status);
    }
    expect(await readUsdcBalance(world.chain.rpcUrl, thief)).toBe(0n);
    // a stranger's copy of the signed one counts
    await waitForSend(merchant, prepared.sendId);
  });

  test("error: signed by a passkey removed from the account fails; no other can be prepared for it", async () => {
    const user = await funded(1_000_000n);
    const wallet = user.walletAddress as Hex;
    const [row] = await sql<{ owners: Hex[] }[]>`select owners from wallets where user_id = ${user.userId}`;
    const before = await prepareSend(user, { to: randomAddress(), amount: "0.1" });
    await fundEth(world.chain.rpcUrl, wallet, 10n ** 18n);
    // the account itself may change its owners, as its address owner would have it do
    await transact(wallet, wallet, encodeAddOwner(randomAddress()));
    await transact(wallet, wallet, encodeRemoveOwner(0, row?.owners[0] ?? "0x"));
    // a passkey's sessions end once its removal is deep, which any further block of this chain makes it
    await sql`update sessions set passkey_id = null where user_id = ${user.userId}`;
    expect((await confirmSend(user, before)).status).toBe(202);
    await refusedOnce(before.sendId);
    await callRpc(world.chain.rpcUrl, "anvil_mine", [toHex(RETURN_BLOCKS)]);
    const failed = await waitForSend(user, before.sendId, "FAILED");
    expect(failed).toMatchObject({ reason: "SIGNATURE_REFUSED", transactionHash: null });
    const after = { to: randomAddress(), amount: "0.1" };
    expectRefusal(await user.client.post("/v1/wallets/send/prepare", after), 409, {
      issue: "no_owner_passkey",
    });
    expect(await readUsdcBalance(world.chain.rpcUrl, wallet)).toBe(1_000_000n);
  });
});

test("a send refused while a reorganisation has its signer removed is sent when the signer is back", async () => {
  const user = await funded(1_000_000n);
  const wallet = user.walletAddress as Hex;
  const [row] = await sql<{ owners: Hex[] }[]>`select owners from wallets where user_id = ${user.userId}`;
  await fundEth(world.chain.rpcUrl, wallet, 10n ** 18n);
  await transact(wallet, wallet, encodeAddOwner(randomAddress()));
  const to = randomAddress();
  const send = await prepareSend(user, { to, amount: "0.1" });
  const head = Number(await callRpc(world.chain.rpcUrl, "eth_blockNumber"));
  await transact(wallet, wallet, encodeRemoveOwner(0, row?.owners[0] ?? "0x"));
  await sql`update sessions set passkey_id = null where user_id = ${user.userId}`;
  expect((await confirmSend(user, send)).status).toBe(202);
  await refusedOnce(send.sendId);
  const depth = Number(await callRpc(world.chain.rpcUrl, "eth_blockNumber")) - head;
  await callRpc(world.chain.rpcUrl, "anvil_reorg", [depth, []]);
  await callRpc(world.chain.rpcUrl, "anvil_mine", [toHex(RETURN_BLOCKS)]);
  await waitForSend(user, send.sendId);
  // what the account accepts has not been refused since
  const [operation] = await sql`
    select signature_refused_block from wallet_operations where id = ${send.sendId}`;
  expect(operation).toEqual({ signatureRefusedBlock: null });
  expect(await readUsdcBalance(world.chain.rpcUrl, to)).toBe(100_000n);
});

test("error: a refund and a requested one are network_unreachable, retryable, while no node answers", async () => {
  const { linkId } = await paidByX402(1);
  const path = `/v1/payment-links/${linkId}/refund-requests`;
  const asked = (await merchant.client.post(path, { amount: "0.5" })).body;
  await world.chain.stop();
  const answers = [
    await refund(linkId),
    await merchant.client.post(`/v1/refunds/${asked.refundId}/prepare`, {}),
  ];
  for (const answer of answers) expectRefusal(answer, 500, { issue: "network_unreachable", retryable: true });
  // asking needs no node
  expect((await merchant.client.post(path, { amount: "0.5" })).status).toBe(201);
});
