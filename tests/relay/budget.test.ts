/** What may be paid for gas in a day has an end: nothing more is sent, and payers are told to come back. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Lab, linkStatus, newOrder, pay, relaysOf, startLab, waitFor } from "./lab.ts";

let lab: Lab;

beforeAll(async () => {
  lab = await startLab({ env: { RELAY_DAILY_FEE_MAX_WEI: "1" } });
}, 60_000);

afterAll(() => lab?.stop());

test("error: INTERNAL_ERROR once the day's gas budget is spent; nothing is sent and the link is free", async () => {
  expect(await pay(lab, await newOrder(lab))).toMatchObject({ status: 200 });
  await waitFor("the receipt", async () => (await relaysOf(lab)).every((relay) => relay.gasUsed !== null));
  await Bun.sleep(1_100);
  const order = await newOrder(lab);
  expect(await pay(lab, order)).toMatchObject({
    status: 500,
    body: { error: "INTERNAL_ERROR", retryable: true },
  });
  expect(await linkStatus(lab, order.linkId)).toBe("ACTIVE");
  expect((await relaysOf(lab)).length).toBe(1);
}, 30_000);
