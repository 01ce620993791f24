/** What an operation's event or end changes, and what it leaves as it is: the conditions of the statements, one by one. */
import { afterAll, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { newOwnerChangeIds } from "../../core/domain/ids.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { findWaiting } from "../../db/ledger/watched-wallets.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { confirmDeepOperations } from "../../db/wallet-ops/confirm-operations.ts";
import { countPausedSenders, readDailyGasUsage } from "../../db/wallet-ops/daily-gas-usage.ts";
import { openHistory } from "../../db/wallet-ops/operations.ts";
import {
  countWaitingOperations,
  failQueuedOperations,
  markOperationsSigned,
  requeueUnrunOperations,
} from "../../db/wallet-ops/queue.ts";
import { reopenOperationHistory, reopenOperations } from "../../db/wallet-ops/reorganised-operations.ts";
import { loadOperations, recordOperationEvents, settleOperations } from "../../db/wallet-ops/settlement.ts";
import { beginWithinDay } from "../support/begin-within-day.ts";
import { NETWORK } from "../support/indexer-lab.ts";
import {
  eventOf,
  type Made,
  type OperationLab,
  openOperationLab,
  randomHash,
} from "../support/operation-lab.ts";
import { seedOwnerChange } from "../support/passkey-rows.ts";
import { randomAddress, seedMerchant } from "../support/seed.ts";
import { insertHistory } from "../transactions/history.ts";

setDefaultTimeout(120_000);
const OTHER_NETWORK = "base";

let lab: OperationLab;
let sql: Sql;
let { makeOperation, queued, relayed, rowOf } = {} as OperationLab;

beforeAll(async () => {
  lab = await openOperationLab();
  ({ sql, makeOperation, queued, relayed, rowOf } = lab);
  await sql`insert into cursors (network, number, hash, head_number) values (${OTHER_NETWORK}, 500, ${randomHash()}, 500)`;
});
beforeEach(beginWithinDay);
afterAll(() => lab?.stop());

const set = ({ id }: { id: string }, given: object) =>
  sql`update wallet_operations set ${sql(given)} where id = ${id}`;
const item = (amountUnits: bigint, isFee = false) => ({ to: randomAddress(), amountUnits, note: "", isFee });

async function settle(made: Made, blockNumber: number, nonce = 0n): Promise<void> {
  const event = eventOf(made, { blockNumber, nonce });
  await recordOperationEvents(sql, NETWORK, [event]);
  await settleOperations(sql, NETWORK, [event]);
}

type Told = { type: string; data: Record<string, unknown> };

async function eventsOf({ id }: { id: string }): Promise<Told[]> {
  return sql<Told[]>`
    select type, data from events where subject_id = ${id} order by id`;
}

async function ownerOperation(of: Made, nonce = 1n): Promise<Made> {
  const ownerChangeId = await seedOwnerChange(sql, of.userId, { owner: `0x${"34".repeat(64)}` });
  const [id = ""] = newOwnerChangeIds(new Date(), 1);
  return lab.queued(of, nonce, { id, kind: "OWNERS", ownerChangeId });
}

type HistoryRow = { id: string; status: string; txHash: Hex | null };

async function historyOf({ id }: { id: string }): Promise<HistoryRow[]> {
  return sql<HistoryRow[]>`
    select id, status, tx_hash from transactions where operation_id = ${id} order by operation_item_id`;
}

describe("an end", () => {
  test("NONCE_TAKEN applies to queued, signed and sent operations alike", async () => {
    const [inQueue, signed, sent] = [await queued(), await relayed("SIGNED"), await relayed("SIGNED")];
    await set(sent, { state: "BROADCAST" });
    for (const made of [inQueue, signed, sent])
      await recordOperationEvents(sql, NETWORK, [eventOf(made, { userOpHash: randomHash() })]);
    const ended = await confirmDeepOperations(sql, { network: NETWORK, depthNumber: 100 });
    for (const { id } of [inQueue, signed, sent]) expect(ended).toContain(id);
  });

  test("CONFIRMED has an event with amount and recipients, without the fee; an owner change has none", async () => {
    const made = await lab.queued(undefined, 0n, { items: [item(5n), item(7n), item(100n, true)] });
    const change = await ownerOperation(await makeOperation());
    for (const one of [made, change]) await settle(one, 10);
    await confirmDeepOperations(sql, { network: NETWORK, depthNumber: 10 });
    expect((await rowOf(change)).state).toBe("CONFIRMED");
    expect(await eventsOf(change)).toEqual([]);
    expect(await eventsOf(made)).toMatchObject([
      { type: "wallet.send_confirmed", data: { amount: "0.000012", recipients: 2 } },
    ]);
  });

  test("FAILED has no event that says CONFIRMED", async () => {
    const made = await lab.queued(undefined, 0n, { items: [item(5n)] });
    const event = eventOf(made, { blockNumber: 10, succeeded: false, failure: "INSUFFICIENT_FUNDS" });
    await recordOperationEvents(sql, NETWORK, [event]);
    await settleOperations(sql, NETWORK, [event]);
    await confirmDeepOperations(sql, { network: NETWORK, depthNumber: 10 });
    expect(await rowOf(made)).toMatchObject({ state: "FAILED", reason: "INSUFFICIENT_FUNDS" });
    expect((await eventsOf(made)).map(({ type }) => type)).toEqual(["wallet.send_failed"]);
  });

  test("FAILED fails its own PENDING history rows, and none that a block has decided", async () => {
    const made = await lab.queued(undefined, 0n, { items: [item(5n)] });
    const other = await lab.queued(undefined, 0n, { items: [item(5n)] });
    for (const one of [made, other])
      await openHistory(sql, one, { ids: [`txn_${one.id}`], linkId: null, description: null, note: null });
    const [decided = ""] = await insertHistory(sql, made.userId, [{ type: "SEND" }]);
    await sql`update transactions set operation_id = ${made.id} where id = ${decided}`;
    await failQueuedOperations(sql, [{ id: made.id, reason: "NOT_SENT" }]);
    expect((await historyOf(made)).map(({ status }) => status)).toEqual(["FAILED", "CONFIRMED"]);
    expect((await historyOf(other)).map(({ status }) => status)).toEqual(["PENDING"]);
    expect(await eventsOf(other)).toEqual([]);
    expect((await eventsOf(made)).map(({ type }) => type)).toEqual(["wallet.send_failed"]);
  });

  test("withdrawn by a reorganisation is reported for a send, CONFIRMED or FAILED, and not for an owner change", async () => {
    const [confirmed, failed] = [await queued(), await queued()];
    const change = await ownerOperation(await makeOperation());
    for (const made of [confirmed, change]) await settle(made, 20);
    const event = eventOf(failed, { blockNumber: 20, succeeded: false, failure: "INSUFFICIENT_FUNDS" });
    await recordOperationEvents(sql, NETWORK, [event]);
    await settleOperations(sql, NETWORK, [event]);
    await confirmDeepOperations(sql, { network: NETWORK, depthNumber: 20 });
    expect((await rowOf(failed)).state).toBe("FAILED");
    await reopenOperations(sql, { network: NETWORK, ancestor: 19 });
    const withdrawn = async (made: Made) =>
      (await eventsOf(made)).filter(({ type }) => type.endsWith("reorged")).length;
    expect(await Promise.all([confirmed, failed, change].map(withdrawn))).toEqual([1, 1, 0]);
  });
});

describe("a reorganisation", () => {
  test.each(["QUEUED", "SIGNED", "BROADCAST"])("makes an operation that was %s wait again", async (state) => {
    const made = await relayed("SIGNED");
    await set(made, { state });
    const lost = await relayed("LOST");
    await set(lost, { state });
    for (const one of [made, lost]) await settle(one, 30);
    expect(await rowOf(made)).toMatchObject({ state: "MINED", isExtra: false });
    await reopenOperations(sql, { network: NETWORK, ancestor: 29 });
    expect([(await rowOf(made)).state, (await rowOf(lost)).state]).toEqual(["BROADCAST", "QUEUED"]);
  });

  test.each(["QUEUED", "SIGNED", "BROADCAST", "MINED"])(
    "puts an operation next to the wallet's live one that is %s, but not next to an ended or another wallet's",
    async (state) => {
      const [made, stranger] = [await queued(), await queued()];
      for (const one of [made, stranger]) await settle(one, 41);
      await confirmDeepOperations(sql, { network: NETWORK, depthNumber: 41 });
      const successor = await queued(made, 1n);
      await set(successor, {
        ...{ state, relay_id: await lab.makeRelay("SIGNED"), tx_hash: state === "MINED" ? "0x" : null },
        succeeded: true,
      });
      const ended = await makeOperation(stranger, 1n);
      await set(ended, { state: "CANCELLED" });
      await reopenOperations(sql, { network: NETWORK, ancestor: 40 });
      expect(await rowOf(made)).toMatchObject({ state: "QUEUED", isExtra: true });
      expect(await rowOf(stranger)).toMatchObject({ state: "QUEUED", isExtra: false });
    },
  );

  test("does not change history rows that a transfer or a block has decided", async () => {
    const made = await queued();
    const [pending = "", moved = "", confirmed = ""] = await insertHistory(sql, made.userId, [
      { type: "SEND", status: "PENDING" },
      { type: "SEND", status: "FAILED" },
      { type: "SEND" },
    ]);
    await sql`update transactions set operation_id = ${made.id} where id in (${pending}, ${moved}, ${confirmed})`;
    await sql`update transactions set transfer_id = 1000000 where id = ${moved}`;
    await set(made, { state: "FAILED", reason: "NOT_SENT" });
    await reopenOperationHistory(sql, [made.id]);
    const rows = await historyOf(made);
    const statusOf = (id: string) => rows.find((row) => row.id === id)?.status;
    expect([statusOf(pending), statusOf(moved), statusOf(confirmed)]).toEqual([
      "FAILED",
      "FAILED",
      "CONFIRMED",
    ]);
    await set(made, { state: "QUEUED", reason: null, signature: "0x01" });
    await reopenOperationHistory(sql, [made.id]);
    const again = await historyOf(made);
    expect(again.find(({ id }) => id === pending)?.status).toBe("PENDING");
    expect(again.find(({ id }) => id === moved)?.status).toBe("FAILED");
  });
});

describe("the queue", () => {
  test("gets back what its relay did not run, sent or not, whatever another network's block at that height is", async () => {
    const [signed, sent] = [await relayed("CONFIRMED", 60), await relayed("CONFIRMED", 61)];
    await set(sent, { state: "BROADCAST" });
    await sql`
      insert into blocks (network, number, hash, parent_hash, block_time)
      values (${OTHER_NETWORK}, 60, ${randomHash()}, '0x', now())`;
    const { requeued } = await requeueUnrunOperations(sql, NETWORK, 1);
    expect([signed, sent].map(({ id }) => requeued.includes(id))).toEqual([true, true]);
  });

  test("is counted by state while no block has the waiting operations", async () => {
    await sql`update wallet_operations set state = 'CANCELLED', reason = null where state <> 'CANCELLED'`;
    const [first] = [await queued(), await relayed("SIGNED"), await makeOperation()];
    const sent = await relayed("SIGNED");
    await set(sent, { state: "BROADCAST" });
    await settle(await queued(), 70);
    const counts = (await countWaitingOperations(sql)).map(({ state, count }) => [state, count]);
    expect(Object.fromEntries(counts)).toEqual({ QUEUED: 1, SIGNED: 1, BROADCAST: 1 });
    await sql`update wallet_operations set state = 'CANCELLED' where state <> 'CANCELLED'`;
    const waitedFor: string[] = [];
    await set(first, { relay_id: await lab.makeRelay("SIGNED"), tx_hash: "0x", succeeded: true });
    for (const state of ["AWAITING_SIGNATURE", "QUEUED", "SIGNED", "BROADCAST", "MINED", "CONFIRMED"]) {
      await set(first, { state });
      if ((await findWaiting(sql, NETWORK)).operations) waitedFor.push(state);
      expect((await findWaiting(sql, OTHER_NETWORK)).operations).toBe(false);
    }
    expect(waitedFor).toEqual(["QUEUED", "SIGNED", "BROADCAST", "MINED"]);
    await set(first, { state: "QUEUED" });
    expect((await rowOf(first)).state).toBe("QUEUED");
  });
});

describe("the gas usage and failures of a user", () => {
  test("are what was relayed within the hour and failed, except by a relay that did not run it", async () => {
    const made = await relayed("MINED", 10);
    const stranger = await relayed("MINED", 10);
    const read = async () => (await readDailyGasUsage(sql, made.userId)).failures;
    const paused = () => countPausedSenders(sql, 1);
    expect([await read(), await paused()]).toEqual([0, 0]);
    const failed = { state: "FAILED", reason: "REVERTED" };
    await set(stranger, failed);
    expect([await read(), await paused()]).toEqual([0, 1]);
    await set(made, failed);
    expect([await read(), await paused()]).toEqual([1, 2]);
    expect(await countPausedSenders(sql, 2)).toBe(0);
    expect((await readDailyGasUsage(sql, made.userId)).secondsOfPauseLeft).toBeWithin(3_500, 3_601);
    for (const otherwise of [
      { reason: "NOT_RUN" },
      { relayed_at: null },
      { queued_at: new Date(Date.now() - 3_601_000) },
    ]) {
      const before = await rowOf(made);
      await set(made, otherwise);
      expect([await read(), await paused()]).toEqual([0, 1]);
      await set(made, { reason: "REVERTED", relayed_at: before.relayedAt, queued_at: before.queuedAt });
    }
    expect(await read()).toBe(1);
  });

  test("are in the user's own budget for today, on either network, used or reserved", async () => {
    const [user, stranger] = [await seedMerchant(sql), await seedMerchant(sql)];
    const budget = (subject: string, given: object = {}) =>
      sql`insert into relay_budgets ${sql({
        ...{ day: new Date(), network: NETWORK, scope: "SENDER", subject, reserved: 3, used: 4 },
        ...given,
      })}`;
    await budget(user.userId);
    await budget(user.userId, { network: OTHER_NETWORK });
    await budget(user.userId, { scope: "MERCHANT" });
    await budget(user.userId, { day: new Date(Date.now() - 86_400_000) });
    await budget(stranger.userId);
    expect((await readDailyGasUsage(sql, user.userId)).gas).toBe(14n);
  });
});

describe("a settled operation", () => {
  test("is loaded by its hash on its own network, with its own items", async () => {
    const [made, other] = [
      await lab.queued(undefined, 0n, { items: [item(5n)] }),
      await lab.queued(undefined, 0n, { items: [item(7n)] }),
    ];
    expect(await loadOperations(sql, OTHER_NETWORK, [made.userOpHash])).toEqual([]);
    expect(await loadOperations(sql, NETWORK, [made.userOpHash])).toMatchObject([
      { id: made.id, items: [{ amountUnits: 5n }] },
    ]);
    expect(await loadOperations(sql, NETWORK, [made.userOpHash, other.userOpHash])).toHaveLength(2);
  });

  test("deploys its own wallet, once", async () => {
    const [made, stranger] = [await queued(), await queued()];
    await markOperationsSigned(sql, await lab.makeRelay("SIGNED"), [made.id]);
    await settle(made, 80);
    await settle(await makeOperation(made, 1n), 80, 1n);
    const deployed = async ({ walletId }: Made) => {
      const [row] = await sql<{ isDeployed: boolean }[]>`
        select deployed_at is not null as is_deployed from wallets where id = ${walletId}`;
      return [row?.isDeployed, (await eventsOf({ id: walletId })).length];
    };
    expect(await deployed(made)).toEqual([true, 1]);
    expect(await deployed(stranger)).toEqual([false, 0]);
  });
});
