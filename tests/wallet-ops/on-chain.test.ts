/** Sends against what a chain does to them: bundles, failing calls, strangers' copies, spent nonces, reorganisations, a rebuild. */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { toHex } from "viem";
import { encodePasskeySignature } from "../../core/chain/passkey-signature.ts";
import { encodeTransfer } from "../../core/chain/usdc.ts";
import { buildUserOperation, type UserOperation } from "../../core/chain/user-operation.ts";
import { userOperationHash } from "../../core/chain/user-operation-hash.ts";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { fieldOf } from "../../core/rpc/parse-answers.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { withWorkLock } from "../../db/postgres/work-lock.ts";
import { rebuildNetwork } from "../../indexer/audit/rebuild-network.ts";
import { localAccount } from "../../local/chain/accounts.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { fundUsdc, readUsdcBalance } from "../../local/chain/usdc.ts";
import { buildUserOperationCall } from "../support/account-on-chain.ts";
import type { Answer } from "../support/http-client.ts";
import { openTerm, randomAddress, USDC } from "../support/indexer-lab.ts";
import { assertInvariants } from "../support/invariants.ts";
import { openPauses } from "../support/poll.ts";
import { confirmSend, prepareSend, waitForSend } from "../support/sends.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { waitForReceipt } from "../support/wait-for-receipt.ts";
import { startWorld, type World } from "../support/world.ts";

setDefaultTimeout(120_000);
const NETWORK = NETWORKS["base-sepolia"];
const STRANGER = localAccount(5).address.toLowerCase() as Hex;
const WAIT_MS = 90_000;

let world: World;
let sql: Sql;

beforeAll(async () => {
  world = await startWorld();
  sql = openDatabase(world.db.url, { name: "test", maxConnections: 4 });
});
afterAll(async () => {
  await sql?.end();
  await world?.stop();
});

const rpc = (method: string, params: unknown[] = []) => callRpc(world.chain.rpcUrl, method, params);

async function funded(units = 10_000_000n): Promise<Merchant> {
  const merchant = await signUp(world.baseUrl);
  await fundUsdc(world.chain.rpcUrl, merchant.walletAddress as Hex, units);
  await until(async () => {
    const [wallet] =
      await sql`select from wallets where user_id = ${merchant.userId} and deployed_at is not null`;
    return wallet !== undefined;
  });
  return merchant;
}

async function until(isDone: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + WAIT_MS;
  const pause = openPauses();
  while (!(await isDone())) {
    if (Date.now() > deadline) throw new Error("timed out");
    await pause();
  }
}

async function confirmed(merchant: Merchant, prepared: Answer["body"]): Promise<string> {
  const answer = await confirmSend(merchant, prepared);
  if (answer.status !== 202) throw new Error(answer.text);
  return prepared.sendId;
}

/** The prepared operation as anybody can put it together who has seen the signature. */
async function signed(merchant: Merchant, { userOperation, passkeyChallenge }: Answer["body"]) {
  const { response } = await merchant.passkey.authenticate(passkeyChallenge);
  return {
    ...userOperation,
    nonce: BigInt(userOperation.nonce),
    callGasLimit: BigInt(userOperation.callGasLimit),
    verificationGasLimit: BigInt(userOperation.verificationGasLimit),
    preVerificationGas: 0n,
    maxFeePerGas: 0n,
    maxPriorityFeePerGas: 0n,
    signature: encodePasskeySignature(response, 0),
  } as UserOperation;
}

async function submitByStranger(operation: UserOperation): Promise<void> {
  const { to, data, gas } = buildUserOperationCall(operation, STRANGER);
  const hash = await rpc("eth_sendTransaction", [{ from: STRANGER, to, data, gas: toHex(gas) }]);
  const { status } = await waitForReceipt(world.chain.rpcUrl, hash);
  if (status !== "0x1") throw new Error("the EntryPoint refused the operation");
}

async function historyOf(sendId: string): Promise<{ status: string; failureReason: string | null }[]> {
  const rows = await sql<{ status: string; failureReason: string | null }[]>`
    select status, failure_reason from transactions where operation_id = ${sendId}`;
  return [...rows];
}

describe("a payout to 100 recipients with one signature", () => {
  test("reaches every recipient once per entry, even one listed twice", async () => {
    const merchant = await funded();
    const recipients = Array.from({ length: 99 }, randomAddress);
    const payments = [...recipients, recipients[0] as Hex].map((to, index) => ({
      ...{ to, amount: "0.02", note: `Salary ${index}` },
    }));
    const sendId = await confirmed(merchant, await prepareSend(merchant, { payments }));
    const done = await waitForSend(merchant, sendId);
    expect(done.payments).toHaveLength(100);
    expect(
      new Set(done.payments.map(({ transactionId }: { transactionId: string }) => transactionId)).size,
    ).toBe(100);
    const balances = await Promise.all(recipients.map((to) => readUsdcBalance(world.chain.rpcUrl, to)));
    expect(balances).toEqual([40_000n, ...Array<bigint>(98).fill(20_000n)]);
    const rows = await historyOf(sendId);
    expect(rows).toHaveLength(100);
    expect(new Set(rows.map(({ status }) => status))).toEqual(new Set(["CONFIRMED"]));
    const all =
      await sql`select from transactions where owner = owner_key(${merchant.userId}) and type = 'SEND'`;
    expect(all).toHaveLength(100);
  });
});

describe("sends that wait together", () => {
  test("travel in one transaction, and a bad one among them does not affect the others", async () => {
    const merchants = await Promise.all(Array.from({ length: 4 }, () => funded()));
    const [bad, ...good] = merchants as [Merchant, ...Merchant[]];
    const to = randomAddress();
    await world.kill("worker");
    const ids = new Map<Merchant, string>();
    for (const merchant of merchants) {
      ids.set(merchant, await confirmed(merchant, await prepareSend(merchant, { to, amount: "1" })));
    }
    await fundUsdc(world.chain.rpcUrl, bad.walletAddress as Hex, 999_999n);
    await world.start("worker");
    const failed = await waitForSend(bad, ids.get(bad) ?? "", "FAILED");
    expect(failed).toMatchObject({
      reason: "INSUFFICIENT_FUNDS",
      stillPossible: true,
      transactionHash: null,
    });
    const done = await Promise.all(good.map((merchant) => waitForSend(merchant, ids.get(merchant) ?? "")));
    expect(new Set(done.map(({ transactionHash }) => transactionHash)).size).toBe(1);
    expect(await readUsdcBalance(world.chain.rpcUrl, to)).toBe(3_000_000n);
    const [row] = await sql`select signature from wallet_operations where id = ${ids.get(bad) ?? ""}`;
    expect(row?.signature).toBeNull();
    expect(await historyOf(ids.get(bad) ?? "")).toEqual([
      { status: "FAILED", failureReason: "INSUFFICIENT_FUNDS" },
    ]);
  });
});

describe("an operation whose calls fail in its block", () => {
  test("is FAILED with the token's reason, spends its nonce, and leaves no PENDING history", async () => {
    const merchant = await funded(2_000_000n);
    const prepared = await prepareSend(merchant, { to: randomAddress(), amount: "2" });
    await rpc("evm_setAutomine", [false]);
    try {
      const sendId = await confirmed(merchant, prepared);
      await waitForSend(merchant, sendId, "BROADCAST");
      await fundUsdc(world.chain.rpcUrl, merchant.walletAddress as Hex, 1n);
    } finally {
      await rpc("evm_setAutomine", [true]);
      await rpc("anvil_mine", ["0x1"]);
    }
    const failed = await waitForSend(merchant, prepared.sendId, "FAILED");
    expect(failed).toMatchObject({ reason: "INSUFFICIENT_FUNDS", stillPossible: false });
    expect(failed.transactionHash).toMatch(/^0x/);
    expect(await historyOf(prepared.sendId)).toEqual([
      { status: "FAILED", failureReason: "INSUFFICIENT_FUNDS" },
    ]);
    const events = await sql<{ type: string }[]>`
      select type from events where subject_id = ${prepared.sendId} order by id`;
    expect(events.map(({ type }) => type)).toEqual(["wallet.send_queued", "wallet.send_failed"]);
    // the wallet is free for the next one
    await fundUsdc(world.chain.rpcUrl, merchant.walletAddress as Hex, 3_000_000n);
    await waitForSend(
      merchant,
      await confirmed(merchant, await prepareSend(merchant, { to: randomAddress(), amount: "1" })),
    );
  });
});

describe("handleOps called by a stranger", () => {
  test("with a queued send's own bytes settles it; the worker sends nothing more", async () => {
    const merchant = await funded();
    const to = randomAddress();
    await world.kill("worker");
    const prepared = await prepareSend(merchant, { to, amount: "1" });
    const operation = await signed(merchant, prepared);
    const sendId = await confirmed(merchant, prepared);
    await submitByStranger(operation);
    await waitForSend(merchant, sendId);
    await world.start("worker");
    await waitForSend(
      merchant,
      await confirmed(merchant, await prepareSend(merchant, { to: randomAddress(), amount: "1" })),
    );
    expect(await readUsdcBalance(world.chain.rpcUrl, to)).toBe(1_000_000n);
    const [row] = await sql`select relay_id from wallet_operations where id = ${sendId}`;
    expect(row?.relayId).toBeNull();
  });

  test("executes a send that was cancelled after signing: CANCELLED becomes CONFIRMED, also in the history", async () => {
    const merchant = await funded();
    const to = randomAddress();
    const prepared = await prepareSend(merchant, { to, amount: "1.25" });
    const operation = await signed(merchant, prepared);
    const cancelled = await merchant.client.post(`/v1/wallets/sends/${prepared.sendId}/cancel`, {});
    expect(cancelled.body).toMatchObject({ status: "CANCELLED", stillPossible: true });
    await submitByStranger(operation);
    const done = await waitForSend(merchant, prepared.sendId);
    expect(done).toMatchObject({ stillPossible: false, reason: null });
    expect(await historyOf(prepared.sendId)).toEqual([{ status: "CONFIRMED", failureReason: null }]);
  });

  test("with another operation of the same nonce ends a queued send as NONCE_TAKEN", async () => {
    const merchant = await funded();
    const [lost, other] = [randomAddress(), randomAddress()];
    await world.kill("worker");
    const prepared = await prepareSend(merchant, { to: lost, amount: "1" });
    const rival = buildUserOperation({
      sender: merchant.walletAddress as Hex,
      nonce: BigInt(prepared.userOperation.nonce),
      calls: [{ to: USDC, data: encodeTransfer(other, 2_000_000n) }],
    });
    const challenge = userOperationHash(rival, NETWORK.chainId).slice(2);
    const { response } = await merchant.passkey.authenticate({
      challenge: Buffer.from(challenge, "hex").toString("base64url"),
    });
    const sendId = await confirmed(merchant, prepared);
    await submitByStranger({ ...rival, signature: encodePasskeySignature(response, 0) });
    const failed = await waitForSend(merchant, sendId, "FAILED");
    expect(failed).toMatchObject({ reason: "NONCE_TAKEN", stillPossible: false });
    await world.start("worker");
    expect(await readUsdcBalance(world.chain.rpcUrl, lost)).toBe(0n);
    expect(await readUsdcBalance(world.chain.rpcUrl, other)).toBe(2_000_000n);
    const [own] = await sql`
      select status, operation_id from transactions where owner = owner_key(${merchant.userId}) and counterparty = ${other}`;
    expect(own).toMatchObject({ status: "CONFIRMED", operationId: null });
  });
});

describe("a void", () => {
  test("spends the nonce of a cancelled send, whose signature is then worthless", async () => {
    const merchant = await funded();
    const to = randomAddress();
    const prepared = await prepareSend(merchant, { to, amount: "1" });
    const operation = await signed(merchant, prepared);
    const path = `/v1/wallets/sends/${prepared.sendId}`;
    expect((await merchant.client.post(`${path}/void`, {})).status).toBe(409);
    await merchant.client.post(`${path}/cancel`, {});
    const empty = await merchant.client.post(`${path}/void`, {});
    expect(empty.status).toBe(201);
    expect(empty.body.userOperation.nonce).toBe(prepared.userOperation.nonce);
    expect(empty.body.summary).toMatchObject({ payments: [], total: "0.000000" });
    await waitForSend(merchant, await confirmed(merchant, empty.body));
    expect((await merchant.client.get(path)).body).toMatchObject({
      status: "CANCELLED",
      stillPossible: false,
    });
    await expect(submitByStranger(operation)).rejects.toThrow();
    expect(await readUsdcBalance(world.chain.rpcUrl, to)).toBe(0n);
    expect((await merchant.client.post(`${path}/void`, {})).status).toBe(409);
  });
});

describe("a reorganisation", () => {
  test("undoes a confirmed send, sends it again, and moves the money once", async () => {
    const merchant = await funded();
    const to = randomAddress();
    let sendId = "";
    let firstBlock = 0;
    // the lock keeps the worker from seeing the block come and go: its relay counts as final when the worker looks at it again
    await until(() =>
      withWorkLock(sql, "keep-relays:base-sepolia", async () => {
        sendId = await confirmed(merchant, await prepareSend(merchant, { to, amount: "3" }));
        const first = await waitForSend(merchant, sendId);
        firstBlock = first.blockNumber;
        const block = await rpc("eth_getBlockByNumber", [toHex(firstBlock), false]);
        await rpc("anvil_reorg", [1, []]);
        await rpc("evm_setTime", [Math.floor(Date.now() / 1000)]);
        await rpc("anvil_mine", ["0x2", "0x1"]);
        // read by the indexer, which puts the send back
        await until(
          async () => (await merchant.client.get(`/v1/wallets/sends/${sendId}`)).body.status !== "CONFIRMED",
        );
        await sql`
          update relays
          set
            state = 'CONFIRMED', tx_hash = ${first.transactionHash}, block_number = ${firstBlock},
            block_hash = ${String(fieldOf(block, "hash"))}, succeeded = true, mined_at = now()
          where id = (select relay_id from wallet_operations where id = ${sendId})`;
      }),
    );
    await until(async () => {
      const { body } = await merchant.client.get(`/v1/wallets/sends/${sendId}`);
      return body.status === "CONFIRMED" && body.blockNumber > firstBlock;
    });
    expect(await readUsdcBalance(world.chain.rpcUrl, to)).toBe(3_000_000n);
    expect(await historyOf(sendId)).toEqual([{ status: "CONFIRMED", failureReason: null }]);
    const rows =
      await sql`select from transactions where owner = owner_key(${merchant.userId}) and type = 'SEND'`;
    expect(rows).toHaveLength(1);
    const [operation] = await sql`select missed_relays from wallet_operations where id = ${sendId}`;
    expect(operation).toEqual({ missedRelays: 0 });
  });
});

test("in the end the ledger agrees with the chain, and a rebuild changes nothing", async () => {
  await until(async () => {
    const [row] =
      await sql`select from wallet_operations where state in ('QUEUED', 'SIGNED', 'BROADCAST', 'MINED')`;
    return row === undefined;
  });
  await world.kill("indexer", "SIGTERM");
  await assertInvariants(sql, world.chain);
  const term = await openTerm({ ...world, sql });
  try {
    const { differences } = await rebuildNetwork(term);
    expect(differences).toEqual([]);
  } finally {
    term.close();
  }
});
