/** Facilitated payments have the same relay limits: a least amount, and the gas budget of the API key's owner. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import { readUsdcBalance } from "../../local/chain/usdc.ts";
import { beginWithinDay } from "../support/begin-within-day.ts";
import { signPayment } from "../support/payer.ts";
import { seedMerchant } from "../support/seed.ts";
import {
  type FacilitatorWorld,
  inVersion2,
  makeKey,
  type Purchase,
  purchase,
  startFacilitatorWorld,
} from "./world.ts";

/** Gas limit of one payment by itself. */
const PAYMENT_GAS = 150_000n;
let lab: FacilitatorWorld;

beforeAll(async () => {
  lab = await startFacilitatorWorld();
}, 120_000);
beforeEach(beginWithinDay);
afterAll(() => lab?.stop());

async function settle(bought: Purchase, key: string) {
  const { payload, requirements } = inVersion2(bought);
  const response = await fetch(`${lab.url}/settle`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
    body: JSON.stringify({ x402Version: 2, paymentPayload: payload, paymentRequirements: requirements }),
  });
  return response.json();
}

async function of(amount: bigint): Promise<Purchase> {
  const bought = await purchase(lab);
  const payment = await signPayment(bought.payer, { to: bought.payTo, amountUnits: amount });
  return { ...bought, amount, payment };
}

test("error: RELAY_BUDGET_SPENT when the owner of the API key has no gas left; just enough settles one", async () => {
  for (const [gas, expected] of [
    [PAYMENT_GAS - 1n, ["RELAY_BUDGET_SPENT"]],
    [PAYMENT_GAS, [undefined, "RELAY_BUDGET_SPENT"]],
  ] as const) {
    const owner = await seedMerchant(lab.sql);
    await lab.sql`update users set relay_gas_per_day = ${gas} where id = ${owner.userId}`;
    const key = await makeKey(lab.sql, owner.userId, ["facilitator"]);
    for (const errorReason of expected) {
      const bought = await purchase(lab);
      const answer = (await settle(bought, key)) as { errorReason?: string; errorMessage?: string };
      expect(answer.errorReason).toBe(errorReason);
      const paid = await readUsdcBalance(lab.world.chain.rpcUrl, bought.payTo);
      expect(paid).toBe(errorReason === undefined ? bought.amount : 0n);
      if (errorReason) expect(answer.errorMessage).toMatch(/of \d+ gas; it resets at \d{4}-/);
      await expectReceipts();
    }
  }
}, 120_000);

test("error: AMOUNT_TOO_SMALL_TO_RELAY below the minimum amount, by verify and settle; the minimum settles", async () => {
  const { payload, requirements } = inVersion2(await of(999n));
  expect(await lab.v2.verify(payload, requirements)).toMatchObject({
    ...{ isValid: false, invalidReason: "AMOUNT_TOO_SMALL_TO_RELAY" },
  });
  expect(await settle(await of(999n), lab.key)).toMatchObject({
    ...{ success: false, errorReason: "AMOUNT_TOO_SMALL_TO_RELAY" },
  });
  expect(await settle(await of(1_000n), lab.key)).toMatchObject({ success: true });
}, 120_000);

/** A receipt replaces the reserved gas by the gas used. */
async function expectReceipts(): Promise<void> {
  const deadline = Date.now() + 45_000;
  for (;;) {
    const waiting = await lab.sql`select from relays where gas_used is null`;
    if (waiting.length === 0) return;
    if (Date.now() > deadline) throw new Error("a relay has no receipt in time");
    await Bun.sleep(20);
  }
}
