/** A gas price above the cap: nothing is signed that no block would include, and payers get a retryable error. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { toHex } from "viem";
import { type Lab, linkStatus, newOrder, pay, paymentOf, relaysOf, startLab } from "../support/relay-lab.ts";

/** The worker caches fees for a second. */
const FEES_KEPT_MS = 1_100;
const GWEI = 10n ** 9n;
let lab: Lab;

beforeAll(async () => {
  lab = await startLab({ env: { RELAY_MAX_FEE_GWEI: "10" } });
}, 120_000);

afterAll(() => lab?.stop());

async function setBaseFee(wei: bigint): Promise<void> {
  await lab.rpc("anvil_setNextBlockBaseFeePerGas", [toHex(wei)]);
  await lab.rpc("evm_mine");
  await Bun.sleep(FEES_KEPT_MS);
}

test("error: INTERNAL_ERROR while the base fee is above the cap; the payment succeeds once it is below", async () => {
  await setBaseFee(100n * GWEI);
  const order = await newOrder(lab, { validForS: 3_600 });
  expect(await pay(lab, order)).toMatchObject({
    status: 500,
    body: { success: false, error: "INTERNAL_ERROR", retryable: true, txHash: null },
  });
  expect(await linkStatus(lab, order.linkId)).toBe("ACTIVE");
  expect(await paymentOf(lab, order.linkId)).toMatchObject({
    state: "FAILED",
    reason: "RELAYER_UNAVAILABLE",
  });
  expect(await relaysOf(lab)).toEqual([]);
  await setBaseFee(GWEI);
  expect(await pay(lab, order)).toMatchObject({ status: 200, body: { success: true } });
}, 120_000);
