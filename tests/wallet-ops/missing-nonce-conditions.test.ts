/** Which nonce the wallet's next operation takes while one waits behind a nonce that a reorganisation freed: the conditions, one by one. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { findMissingNonce } from "../../db/wallet-ops/operations.ts";
import { markOperationsSigned } from "../../db/wallet-ops/queue.ts";
import { recordOperationEvents } from "../../db/wallet-ops/settlement.ts";
import { NETWORK } from "../support/indexer-lab.ts";
import { eventOf, type OperationLab, openOperationLab, randomHash } from "../support/operation-lab.ts";

setDefaultTimeout(120_000);

let lab: OperationLab;
beforeAll(async () => {
  lab = await openOperationLab();
});
afterAll(() => lab?.stop());

/** Live at nonce 3, while the newest spent nonce is 0. */
async function waitingBehindGap() {
  const live = await lab.queued(undefined, 3n);
  await recordOperationEvents(lab.sql, NETWORK, [eventOf(live, { userOpHash: randomHash(), nonce: 0n })]);
  return live;
}

test("the nonce after the newest spent one is missing, until a signed operation of the wallet has exactly that nonce", async () => {
  const live = await waitingBehindGap();
  expect(BigInt((await findMissingNonce(lab.sql, live.id)) ?? -1n)).toBe(1n);
  await lab.queued(live, 2n, { isExtra: true });
  await lab.makeOperation(live, 1n);
  expect(BigInt((await findMissingNonce(lab.sql, live.id)) ?? -1n)).toBe(1n);
  await lab.queued(live, 1n, { isExtra: true });
  expect(await findMissingNonce(lab.sql, live.id)).toBeUndefined();
});

test("what other accounts and other keys have spent is no part of the account's sequence, nor is a nonce missing that is spent", async () => {
  const live = await waitingBehindGap();
  const other = await lab.makeOperation();
  await recordOperationEvents(lab.sql, NETWORK, [
    eventOf(other, { nonce: 1n }),
    eventOf(live, { userOpHash: randomHash(), nonce: 2n ** 64n + 1n }),
  ]);
  expect(BigInt((await findMissingNonce(lab.sql, live.id)) ?? -1n)).toBe(1n);
  await recordOperationEvents(lab.sql, NETWORK, [eventOf(live, { userOpHash: randomHash(), nonce: 5n })]);
  expect(await findMissingNonce(lab.sql, live.id)).toBeUndefined();
});

test("no nonce is missing for an operation that is already on its way to a block", async () => {
  const live = await waitingBehindGap();
  await markOperationsSigned(lab.sql, await lab.makeRelay("BROADCAST"), [live.id]);
  expect(await findMissingNonce(lab.sql, live.id)).toBeUndefined();
});

test("an operation that takes a missing nonce is extra also if it was prepared before the nonce was missing", async () => {
  const live = await waitingBehindGap();
  const waiting = await lab.makeOperation(live, 4n);
  const { made } = await lab.insert(live, 1n, waiting, { isExtra: true });
  expect(await lab.queue(made)).toMatchObject({ isExtra: true, state: "QUEUED" });
});
