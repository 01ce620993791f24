/** Whose operations and refunds are found, listed, cancelled and expired: the conditions of the statements, one by one. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { newRefundId, newSendId } from "../../core/domain/ids.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { expireOperations, expireUnsignable } from "../../db/wallet-ops/expire-operations.ts";
import {
  cancelOperation,
  findByIdempotencyKey,
  findLiveOperation,
  findOperation,
  findOperations,
  findSentTo,
  listOperations,
  listOperationsOfChange,
} from "../../db/wallet-ops/operations.ts";
import { findRefund, listRefunds } from "../../db/wallet-ops/refunds.ts";
import { NETWORK } from "../support/indexer-lab.ts";
import { type Made, type OperationLab, openOperationLab } from "../support/operation-lab.ts";
import { seedOwnerChange } from "../support/passkey-rows.ts";
import { randomAddress, type SeededMerchant, seedLink, seedMerchant } from "../support/seed.ts";
import { insertHistory } from "../transactions/history.ts";

setDefaultTimeout(120_000);

let lab: OperationLab;
let sql: Sql;
let { makeOperation, queued, rowOf } = {} as OperationLab;

beforeAll(async () => {
  lab = await openOperationLab();
  ({ sql, makeOperation, queued, rowOf } = lab);
});
afterAll(() => lab?.stop());

const idsOf = (rows: readonly { id: string }[]) => rows.map(({ id }) => id).sort();
const isOver = ({ id }: { id: string }) =>
  sql`update wallet_operations set expires_at = now() where id = ${id}`;

describe("an operation", () => {
  test("is found by its id, for its own user and kind, with its own items", async () => {
    const [made, stranger] = [await makeOperation(), await makeOperation()];
    const to = randomAddress();
    const item = { to, amountUnits: 5n, note: "", isFee: false };
    const { id, userId } = await makeOperation(made, 0n, { items: [item] });
    await makeOperation(stranger, 0n, { items: [item] });
    const chosen = { userId, kind: "SEND" } as const;
    expect(await findOperation(sql, { id, ...chosen })).toMatchObject({ id, items: [{ to, units: "5" }] });
    expect(await findOperation(sql, { id: newSendId(new Date()), ...chosen })).toBeUndefined();
    expect(await findOperation(sql, { id, ...chosen, userId: stranger.userId })).toBeUndefined();
    expect(await findOperation(sql, { id, ...chosen, kind: "REFUND" })).toBeUndefined();
    const ids = [id, stranger.id];
    expect(idsOf(await findOperations(sql, { ids, ...chosen }))).toEqual([id]);
    expect(await findOperations(sql, { ids, ...chosen, kind: "REFUND" })).toEqual([]);
    expect((await findOperation(sql, { id: made.id, ...chosen }))?.items).toEqual([]);
  });

  test("that was restored is also found by its earlier id: by its random part, for its own user and kind", async () => {
    const [made, other] = [await makeOperation(), await makeOperation()];
    const { userId, id } = made;
    const earlier = `${id.slice(0, 4)}000000000001${id.slice(-32)}`;
    const find = (given: { userId?: string; kind?: "SEND" | "REFUND"; id?: string } = {}) =>
      findOperation(sql, { id: earlier, userId, kind: "SEND", ...given });
    expect(await find()).toBeUndefined();
    await sql`update wallet_operations set restored_at = now() where id in (${id}, ${other.id})`;
    expect(await find()).toMatchObject({ id });
    expect(await find({ id: newSendId(new Date()) })).toBeUndefined();
    expect(await find({ userId: other.userId })).toBeUndefined();
    expect(await find({ kind: "REFUND" })).toBeUndefined();
  });

  test("is found by its Idempotency-Key, for its own user and kind, until it ends unsigned", async () => {
    const stranger = await makeOperation(undefined, 0n, { idempotencyKey: "key-1" });
    const made = await makeOperation(undefined, 0n, { idempotencyKey: "key-1", request: { a: 1 } });
    await makeOperation(made, 0n, { idempotencyKey: "key-2" });
    const { userId } = made;
    const find = (
      given: { userId?: string; kind?: "SEND" | "REFUND"; key?: string; request?: unknown } = {},
    ) => findByIdempotencyKey(sql, { userId, kind: "SEND", key: "key-1", request: { a: 1 }, ...given });
    expect(await find()).toMatchObject({ operation: { id: made.id }, isSameRequest: true });
    expect(await find({ request: { a: 2 } })).toMatchObject({ isSameRequest: false });
    expect(await find({ userId: stranger.userId })).toMatchObject({ operation: { id: stranger.id } });
    expect(await find({ kind: "REFUND" })).toBeUndefined();
    expect(await find({ key: "key-3" })).toBeUndefined();
    for (const state of ["EXPIRED", "CANCELLED"]) {
      await sql`update wallet_operations set state = ${state} where id = ${made.id}`;
      expect(await find()).toBeUndefined();
    }
    await sql`update wallet_operations set state = 'FAILED', reason = 'NOT_SENT' where id = ${made.id}`;
    expect(await find()).toMatchObject({ operation: { id: made.id } });
  });

  test("is listed to its own user by kind and by displayed state: expired even before that is recorded", async () => {
    const [waiting, stranger] = [await makeOperation(), await makeOperation()];
    const [over, expired] = [await makeOperation(waiting), await makeOperation(waiting)];
    const live = await queued(waiting, 1n);
    await sql`update wallet_operations set expires_at = now() where id in (${over.id}, ${live.id})`;
    await sql`update wallet_operations set state = 'EXPIRED' where id = ${expired.id}`;
    const list = async (
      state?: "AWAITING_SIGNATURE" | "EXPIRED" | "QUEUED",
      {
        userId = waiting.userId,
        kind = "SEND" as "SEND" | "REFUND",
        before = undefined as string | undefined,
      } = {},
    ) => idsOf(await listOperations(sql, { userId, kind, state }, { before, limit: 10 }));
    const all = idsOf([waiting, over, expired, live]);
    expect(await list()).toEqual(all);
    expect(await list("AWAITING_SIGNATURE")).toEqual([waiting.id]);
    expect(await list("EXPIRED")).toEqual(idsOf([over, expired]));
    expect(await list("QUEUED")).toEqual([live.id]);
    expect(await list(undefined, { userId: stranger.userId })).toEqual([stranger.id]);
    expect(await list(undefined, { kind: "REFUND" })).toEqual([]);
    expect(await list(undefined, { before: all[2] })).toEqual(all.slice(0, 2));
  });

  test("of an owner change is listed to the user of the change", async () => {
    const [made, stranger] = [await makeOperation(), await makeOperation()];
    const changes: string[] = [];
    for (let count = 0; count < 2; count++)
      changes.push(await seedOwnerChange(sql, made.userId, { owner: `0x${"12".repeat(64)}` }));
    const [changeId = "", other = ""] = changes;
    const given = { kind: "OWNERS", ownerChangeId: changeId } as const;
    const operation = await makeOperation(made, 0n, given);
    await makeOperation(made, 0n, { ...given, ownerChangeId: other });
    const list = (userId: string) => listOperationsOfChange(sql, { changeId, userId });
    expect(idsOf(await list(made.userId))).toEqual([operation.id]);
    expect(await list(stranger.userId)).toEqual([]);
  });

  test("is the wallet's live one from its signature until it is deep, except voids and those for every network", async () => {
    const made = await queued();
    await queued();
    const set = (given: object) => sql`update wallet_operations set ${sql(given)} where id = ${made.id}`;
    const live = () => findLiveOperation(sql, made.walletId);
    const found: Record<string, boolean> = {};
    await set({ relay_id: await lab.makeRelay("SIGNED"), tx_hash: "0x", succeeded: true });
    for (const state of ["AWAITING_SIGNATURE", "QUEUED", "SIGNED", "BROADCAST", "MINED", "CONFIRMED"]) {
      await set({ state });
      found[state] = (await live()) === made.id;
    }
    expect(found).toEqual({
      ...{ AWAITING_SIGNATURE: false, QUEUED: true, SIGNED: true, BROADCAST: true, MINED: true },
      CONFIRMED: false,
    });
    await set({ state: "QUEUED", is_extra: true });
    expect(await live()).toBeUndefined();
    await set({ is_extra: false, is_any_chain: true });
    expect(await live()).toBeUndefined();
    await set({ is_any_chain: false });
    expect(await live()).toBe(made.id);
  });

  test("is cancelled only by its own user", async () => {
    const [made, stranger] = [await makeOperation(), await makeOperation()];
    const other = await makeOperation(made);
    expect(await cancelOperation(sql, { id: made.id, userId: stranger.userId })).toBe(false);
    expect(await cancelOperation(sql, made)).toBe(true);
    expect((await rowOf(made)).state).toBe("CANCELLED");
    expect((await rowOf(other)).state).toBe("AWAITING_SIGNATURE");
  });

  test("expires when its time is over and nobody has signed it, for one user or for all", async () => {
    const [made, stranger, intime] = [await makeOperation(), await makeOperation(), await makeOperation()];
    const [signed, cancelled] = [await queued(made), await makeOperation(made)];
    await sql`update wallet_operations set state = 'CANCELLED' where id = ${cancelled.id}`;
    for (const one of [made, stranger, signed, cancelled]) await isOver(one);
    await expireOperations(sql, { userId: made.userId, limit: 100 });
    const states = async () =>
      (await Promise.all([made, stranger, intime].map(rowOf))).map(({ state }) => state);
    expect(await states()).toEqual(["EXPIRED", "AWAITING_SIGNATURE", "AWAITING_SIGNATURE"]);
    await expireOperations(sql, { limit: 100 });
    expect(await states()).toEqual(["EXPIRED", "EXPIRED", "AWAITING_SIGNATURE"]);
    expect((await rowOf(signed)).state).toBe("QUEUED");
    expect((await rowOf(cancelled)).state).toBe("CANCELLED");
  });

  test("expires when its challenge was used up, unless it was prepared again, signed or cancelled", async () => {
    const challengeId = "ch_used-up";
    const given = { challengeId };
    const [made, other] = [
      await makeOperation(undefined, 0n, given),
      await makeOperation(undefined, 0n, given),
    ];
    const [renewed, cancelled] = [await makeOperation(), await makeOperation(undefined, 0n, given)];
    const signed = await queued(undefined, 0n, given);
    await sql`update wallet_operations set state = 'CANCELLED' where id = ${cancelled.id}`;
    await expireUnsignable(sql, { ids: idsOf([made, renewed, signed, cancelled]), challengeId });
    const rows = await Promise.all([made, other, renewed, signed, cancelled].map(rowOf));
    const states = rows.map(({ state }) => state as string);
    expect(states).toEqual(["EXPIRED", "AWAITING_SIGNATURE", "AWAITING_SIGNATURE", "QUEUED", "CANCELLED"]);
  });

  test("is queued only with its own wallet", async () => {
    const [made, other] = [await makeOperation(), await makeOperation()];
    await makeOperation(made, 1n);
    await lab.queue(made);
    const rows = await sql<{ id: string }[]>`
      select id from wallet_operations where state = 'QUEUED' and id in (${made.id}, ${other.id})`;
    expect(idsOf(rows)).toEqual([made.id]);
  });
});

test("an address counts as used when a send of this user to it is CONFIRMED", async () => {
  const [merchant, stranger] = [await seedMerchant(sql), await seedMerchant(sql)];
  const [sent, pending, failed, received, foreign] = Array.from({ length: 5 }, randomAddress);
  await insertHistory(sql, merchant.userId, [
    { type: "SEND", counterparty: sent },
    { type: "SEND", counterparty: sent, network: "base" },
    { type: "SEND", counterparty: pending, status: "PENDING" },
    { type: "SEND", counterparty: failed, status: "FAILED" },
    { type: "RECEIVE", counterparty: received },
  ] as Parameters<typeof insertHistory>[2]);
  await insertHistory(sql, stranger.userId, [{ type: "SEND", counterparty: foreign ?? "0x" }]);
  expect(await findSentTo(sql, merchant.userId, 10)).toEqual([sent ?? "0x"]);
});

test("if there are more recipients than are compared, the latest are compared", async () => {
  const merchant = await seedMerchant(sql);
  const recipients = Array.from({ length: 4 }, randomAddress);
  // the first was sent to again after all others
  const order = [0, 1, 2, 3, 0].map((at) => recipients[at] ?? "0x");
  await insertHistory(
    sql,
    merchant.userId,
    order.map((counterparty, day) => ({
      type: "SEND",
      counterparty,
      detectedAt: new Date(Date.UTC(2026, 0, 1 + day)),
    })),
  );
  expect(await findSentTo(sql, merchant.userId, 2)).toEqual([order[0] ?? "0x", order[3] ?? "0x"]);
});

describe("a refund", () => {
  let merchant: SeededMerchant;
  let stranger: SeededMerchant;

  beforeAll(async () => {
    [merchant, stranger] = [await seedMerchant(sql), await seedMerchant(sql)];
  });

  async function refund(
    of: SeededMerchant,
    { link = "", requestedBy = null as string | null, id = newRefundId(new Date()) } = {},
  ): Promise<string> {
    await sql`
      insert into refunds (
        id, user_id, link_id, network, paid_tx_hash, paid_log_index, to_address, to_source, amount_units, requested_by
      )
      values (
        ${id}, ${of.userId}, ${link || (await seedLink(sql, of))}, ${NETWORK}, '0x', 1, ${of.address}, 'given', 1,
        ${requestedBy}
      )`;
    return id;
  }

  async function operate(of: SeededMerchant, id: string): Promise<Made> {
    const given = { id, kind: "REFUND", userId: of.userId, walletId: of.walletId } as const;
    return makeOperation(undefined, 0n, given);
  }

  test("is found and listed to its own user, also by link and by displayed state", async () => {
    const link = await seedLink(sql, merchant);
    const [first, second] = [await refund(merchant, { link }), await refund(merchant)];
    const foreign = await refund(stranger);
    const find = (id: string) => findRefund(sql, { id, userId: merchant.userId });
    expect(await find(first)).toMatchObject({ id: first, status: "EXPIRED" });
    expect(await find(second)).toMatchObject({ id: second });
    expect(await find(foreign)).toBeUndefined();
    const list = async (filter: { linkId?: string; status?: "EXPIRED" | "REQUESTED" }, before?: string) =>
      idsOf(await listRefunds(sql, { userId: merchant.userId, ...filter }, { before, limit: 10 }));
    expect(await list({})).toEqual([first, second].sort());
    expect(await list({ linkId: link })).toEqual([first]);
    expect(await list({ status: "EXPIRED" })).toEqual([first, second].sort());
    expect(await list({ status: "REQUESTED" })).toEqual([]);
    expect(await list({}, [first, second].sort()[1])).toEqual([[first, second].sort()[0] ?? ""]);
  });

  test("that was restored is found by its earlier id, by its own user", async () => {
    const id = await refund(merchant);
    await operate(merchant, id);
    const earlier = `rfd_000000000001${id.slice(-32)}`;
    const find = (userId: string, of = earlier) => findRefund(sql, { id: of, userId });
    expect(await find(merchant.userId)).toBeUndefined();
    await sql`update wallet_operations set restored_at = now() where id = ${id}`;
    expect(await find(merchant.userId)).toMatchObject({ id });
    expect(await find(stranger.userId)).toBeUndefined();
    expect(await find(merchant.userId, newRefundId(new Date()))).toBeUndefined();
  });

  test("shows its operation's state; without one, or if it expired unsigned, REQUESTED, CANCELLED or EXPIRED", async () => {
    const [requested, prepared] = [
      await refund(merchant, { requestedBy: merchant.userId }),
      await refund(merchant),
    ];
    const status = async (id: string) => (await findRefund(sql, { id, userId: merchant.userId }))?.status;
    expect([await status(requested), await status(prepared)]).toEqual(["REQUESTED", "EXPIRED"]);
    for (const id of [requested, prepared]) await operate(merchant, id);
    expect(await status(requested)).toBe("AWAITING_SIGNATURE");
    for (const id of [requested, prepared]) await isOver({ id });
    expect([await status(requested), await status(prepared)]).toEqual(["REQUESTED", "EXPIRED"]);
    await sql`update wallet_operations set state = 'EXPIRED' where id in (${requested}, ${prepared})`;
    expect([await status(requested), await status(prepared)]).toEqual(["REQUESTED", "EXPIRED"]);
    await sql`update refunds set cancelled_at = now() where id = ${requested}`;
    expect(await status(requested)).toBe("CANCELLED");
    await sql`update wallet_operations set state = 'FAILED', reason = 'NOT_SENT' where id = ${requested}`;
    expect(await status(requested)).toBe("FAILED");
  });
});
