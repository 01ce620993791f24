/**
 * An operation whose predecessor a reorganisation has permanently removed: its nonce is never reached unless another operation takes the one
 * that is missing.
 */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { findLiveOperation, findMissingNonce } from "../../db/wallet-ops/operations.ts";
import { recordOperationEvents } from "../../db/wallet-ops/settlement.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { fundUsdc, readUsdcBalance } from "../../local/chain/usdc.ts";
import { executeCancelled } from "../support/execute-cancelled.ts";
import { NETWORK, randomAddress, until } from "../support/indexer-lab.ts";
import { assertInvariants } from "../support/invariants.ts";
import { eventOf, type Made, type OperationLab, openOperationLab } from "../support/operation-lab.ts";
import { confirmSend, countGas, expectRefusal, prepareSend, waitForSend } from "../support/sends.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { startWorld, type World } from "../support/world.ts";

setDefaultTimeout(120_000);
const DAYS_GAS = 10n ** 12n;

describe("through the processes", () => {
  let world: World;
  let merchant: Merchant;
  beforeAll(async () => {
    world = await startWorld();
    merchant = await signUp(world.baseUrl);
    await fundUsdc(world.chain.rpcUrl, merchant.walletAddress as Hex, 10_000_000n);
    await until("the wallet is deployed", async () => {
      const rows = await world.sql`select from wallets where deployed_at is not null`;
      return rows.length > 0;
    });
  });
  afterAll(() => world?.stop());

  const rpc = (method: string, params: unknown[] = []) => callRpc(world.chain.rpcUrl, method, params);
  const send = (to: Hex) => merchant.client.post("/v1/wallets/send/prepare", { to, amount: "1" });

  test("the wallet keeps sending: its next send takes the missing nonce, and the waiting one follows", async () => {
    const [lost, waiting, next] = [randomAddress(), randomAddress(), randomAddress()];
    const first = await prepareSend(merchant, { to: lost, amount: "1" });
    await executeCancelled(merchant, first, [world.chain.rpcUrl]);
    const { blockNumber } = await waitForSend(merchant, first.sendId);
    const second = await prepareSend(merchant, { to: waiting, amount: "1" });
    await confirmSend(merchant, second);
    await waitForSend(merchant, second.sendId);

    const head = Number(await rpc("eth_blockNumber"));
    await rpc("anvil_reorg", [head - blockNumber + 1, []]);
    await rpc("anvil_mine", ["0x2"]);
    await waitForSend(merchant, second.sendId, "QUEUED");
    expect((await merchant.client.get(`/v1/wallets/sends/${first.sendId}`)).body.status).toBe("CANCELLED");

    // also when the day's gas is used up: it is the way out
    await countGas(world.sql, merchant.userId, DAYS_GAS);
    const third = await send(next);
    expect(third.status).toBe(201);
    expect(third.body.userOperation.nonce).toBe(first.userOperation.nonce);
    await confirmSend(merchant, third.body);
    // one at a time: what takes the missing nonce is on its way, or the one that waited is
    const fourth = await send(next);
    if (fourth.status !== 201) expectRefusal(fourth, 409, { issue: "operation_in_flight" });
    for (const { sendId } of [third.body, second]) await waitForSend(merchant, sendId);
    expectRefusal(await send(next), 429, { issue: "gas_budget" });
    await countGas(world.sql, merchant.userId, -DAYS_GAS);
    const balances = [lost, waiting, next].map((to) => readUsdcBalance(world.chain.rpcUrl, to));
    expect(await Promise.all(balances)).toEqual([0n, 1_000_000n, 1_000_000n]);
    await assertInvariants(world.sql, world.chain);
  });

  test("error: a nonce missing only in the ledger, which is behind the chain, gets no second operation", async () => {
    for (const name of ["worker", "indexer"] as const) await world.kill(name);
    const queued = await prepareSend(merchant, { to: randomAddress(), amount: "1" });
    await confirmSend(merchant, queued);
    await world.sql`
      delete from wallet_operation_events
      where nonce = ${BigInt(queued.userOperation.nonce).toString()}::numeric - 1`;
    expectRefusal(await send(randomAddress()), 409, { issue: "operation_in_flight", id: queued.sendId });
  });
});

describe("the missing nonce of a live operation", () => {
  let lab: OperationLab;
  let sql: Sql;
  beforeAll(async () => {
    lab = await openOperationLab();
    sql = lab.sql;
  });
  afterAll(() => lab?.stop());

  const spend = (made: Made, nonce: bigint) =>
    recordOperationEvents(sql, NETWORK, [eventOf(made, { nonce, userOpHash: `0x${"5e".repeat(32)}` })]);
  const missingOf = async ({ walletId }: Made) =>
    findMissingNonce(sql, (await findLiveOperation(sql, walletId)) ?? "");

  test("is the one after the highest that its wallet has spent", async () => {
    const [made, other] = [await lab.queued(undefined, 4n), await lab.queued(undefined, 4n)];
    expect(await missingOf(made)).toBe(0n);
    await spend(made, 1n);
    await spend(made, 2n);
    // of another wallet, of another network, and of the nonces for every chain
    await spend(other, 3n);
    await recordOperationEvents(sql, "base", [eventOf(made, { nonce: 3n })]);
    await spend(made, 8453n << 64n);
    expect(await missingOf(made)).toBe(3n);
    expect(await missingOf(other)).toBeUndefined();
  });

  test("does not exist if the operation's own is next, or spent", async () => {
    const made = await lab.queued(undefined, 1n);
    await spend(made, 0n);
    expect(await missingOf(made)).toBeUndefined();
    await spend(made, 1n);
    expect(await missingOf(made)).toBeUndefined();
  });

  test("does not exist while the operation is in flight or in a block", async () => {
    const made = await lab.queued(undefined, 1n);
    await sql`
      update wallet_operations
      set relay_id = ${await lab.makeRelay("SIGNED")}, tx_hash = '0x', succeeded = true
      where id = ${made.id}`;
    for (const state of ["SIGNED", "BROADCAST", "MINED"]) {
      await sql`update wallet_operations set state = ${state} where id = ${made.id}`;
      expect([state, await missingOf(made)]).toEqual([state, undefined]);
    }
  });

  test("does not exist while another operation of the wallet that has it is in flight", async () => {
    const made = await lab.queued(undefined, 1n);
    // neither of another nonce, nor of another wallet, nor one that has ended
    const rival = await lab.makeOperation(made, 0n, { isExtra: true });
    const elsewhere = await lab.queued(undefined, 0n);
    expect(elsewhere.walletId).not.toBe(made.walletId);
    expect(await missingOf(made)).toBe(0n);
    await lab.queue(rival);
    expect(await missingOf(made)).toBeUndefined();
    const relayId = await lab.makeRelay("SIGNED");
    await sql`
      update wallet_operations
      set relay_id = ${relayId}, tx_hash = '0x', succeeded = true
      where id = ${rival.id}`;
    for (const state of ["SIGNED", "BROADCAST", "MINED"]) {
      await sql`update wallet_operations set state = ${state} where id = ${rival.id}`;
      expect([state, await missingOf(made)]).toEqual([state, undefined]);
    }
    await sql`update wallet_operations set account_nonce = 7 where id = ${rival.id}`;
    expect(await missingOf(made)).toBe(0n);
    await sql`update wallet_operations set account_nonce = 0, state = 'CANCELLED' where id = ${rival.id}`;
    expect(await missingOf(made)).toBe(0n);
  });

  test("a preparation next to the live operation is extra; prepared again without one, it is not", async () => {
    const made = await lab.makeOperation(undefined, 0n, { isExtra: true });
    expect((await lab.rowOf(made)).isExtra).toBe(true);
    await lab.insert(made, 1n, made);
    expect((await lab.rowOf(made)).isExtra).toBe(false);
    await lab.insert(made, 0n, made, { isExtra: true });
    expect((await lab.rowOf(made)).isExtra).toBe(true);
  });
});
