/** A block that comes after an authorization's window: not the payer's fault. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import {
  type Lab,
  newOrder,
  pay,
  paymentOf,
  relaysOf,
  startLab,
  waitFor,
  waitForLink,
} from "../support/relay-lab.ts";

/** Further than any window, and more than the chain's clock may be off without this test. */
const JUMP_S = 3_600;
let lab: Lab;

beforeAll(async () => {
  lab = await startLab({ env: { PAY_WAIT_MS: "500" } });
}, 120_000);
afterAll(() => lab?.stop());

test("error: EXPIRED_TRANSFER when the block comes too late; the gas does not count against the payer", async () => {
  await lab.rpc("evm_setAutomine", [false]);
  const order = await newOrder(lab);
  await pay(lab, order);
  await waitFor("the payment to be sent", async () => (await relaysOf(lab))[0]?.state === "BROADCAST");
  await lab.rpc("evm_increaseTime", [JUMP_S]);
  await lab.rpc("evm_mine");
  await waitForLink(lab, order.linkId, "ACTIVE");
  expect((await relaysOf(lab)).map(({ succeeded }) => succeeded)).toEqual([false]);
  expect(await paymentOf(lab, order.linkId)).toMatchObject({
    state: "FAILED",
    reason: "EXPIRED_TRANSFER",
    reverts: 0,
  });
}, 120_000);
