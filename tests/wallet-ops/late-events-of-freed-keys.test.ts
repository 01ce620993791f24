/** An operation that freed its Idempotency-Key and was executed all the same: another one may have the key, and the block is settled. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { newSendId } from "../../core/domain/ids.ts";
import { settleOperations } from "../../db/wallet-ops/settlement.ts";
import { NETWORK } from "../support/indexer-lab.ts";
import { eventOf, type Made, type OperationLab, openOperationLab } from "../support/operation-lab.ts";

setDefaultTimeout(120_000);

let lab: OperationLab;

beforeAll(async () => {
  lab = await openOperationLab();
});
afterAll(() => lab?.stop());

const KEY = { idempotencyKey: "order-1" };

/** Of the second of its nonce. */
function waiting(owner?: Made, nonce = 0n): Promise<Made> {
  return lab.makeOperation(owner, nonce, { ...KEY, id: newSendId(new Date(1_000 * Number(nonce))) });
}

/** It was not signed in time, or its owner cancelled it. */
async function ended(state: "EXPIRED" | "CANCELLED", owner?: Made, nonce = 0n): Promise<Made> {
  const made = await waiting(owner, nonce);
  await lab.sql`update wallet_operations set state = ${state} where id = ${made.id}`;
  return made;
}

const settle = (...events: readonly ReturnType<typeof eventOf>[]) =>
  settleOperations(lab.sql, NETWORK, events);

for (const state of ["EXPIRED", "CANCELLED"] as const)
  test(`an ${state} operation is MINED by its event even if another one has its Idempotency-Key`, async () => {
    const first = await ended(state);
    const second = await waiting(first, 1n);
    expect(await settle(eventOf(first))).toEqual([first.id]);
    expect(await lab.rowOf(first)).toMatchObject({ state: "MINED", idempotencyKey: null });
    expect(await lab.rowOf(second)).toMatchObject({ state: "AWAITING_SIGNATURE", ...KEY });
  });

test("of two expired operations of one Idempotency-Key in one block, the earlier gets the key back", async () => {
  const first = await ended("EXPIRED");
  const second = await ended("EXPIRED", first, 1n);
  const third = await ended("EXPIRED", first, 2n);
  const events = [eventOf(second, { nonce: 1n }), eventOf(third, { nonce: 2n, logIndex: 2 })];
  expect(await settle(...events)).toEqual([second.id, third.id]);
  expect(await lab.rowOf(second)).toMatchObject({ state: "MINED", ...KEY });
  expect(await lab.rowOf(third)).toMatchObject({ state: "MINED", idempotencyKey: null });
});

test("an operation that has the Idempotency-Key of an expired one in its block keeps it", async () => {
  const first = await ended("EXPIRED");
  const second = await waiting(first, 1n);
  await settle(eventOf(first), eventOf(second, { nonce: 1n, logIndex: 2 }));
  expect(await lab.rowOf(first)).toMatchObject({ state: "MINED", idempotencyKey: null });
  expect(await lab.rowOf(second)).toMatchObject({ state: "MINED", ...KEY });
});

test("another user's operation, or one of another kind, leaves an expired operation its Idempotency-Key", async () => {
  const first = await ended("EXPIRED");
  await lab.makeOperation(undefined, 0n, KEY);
  await lab.makeOperation(first, 0n, { ...KEY, kind: "REFUND" });
  await settle(eventOf(first));
  expect(await lab.rowOf(first)).toMatchObject({ state: "MINED", ...KEY });
});
