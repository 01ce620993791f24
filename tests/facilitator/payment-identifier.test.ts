/** x402's `payment-identifier` and the seller's Idempotency-Key of a facilitated payment: signing again for the same purchase does not pay twice. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { readUsdcBalance } from "../../local/chain/usdc.ts";
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

let lab: FacilitatorWorld;

beforeAll(async () => {
  lab = await startFacilitatorWorld();
}, 120_000);
afterAll(() => lab?.stop());

async function ask(
  route: "settle" | "verify",
  bought: Purchase,
  id: string,
  { key = lab.key, prefer = "", idempotencyKey = "" } = {},
) {
  const { payload, requirements } = inVersion2(bought);
  const extensions = { "payment-identifier": { info: { required: false, id }, schema: {} } };
  const paymentPayload = { ...payload, extensions };
  const response = await fetch(`${lab.url}/${route}`, {
    method: "POST",
    headers: {
      ...{ "content-type": "application/json", authorization: `Bearer ${key}`, prefer },
      ...(idempotencyKey && { "idempotency-key": idempotencyKey }),
    },
    body: JSON.stringify({ x402Version: 2, paymentPayload, paymentRequirements: requirements }),
  });
  return (await response.json()) as { success: boolean; transaction: string };
}

test("error: a payer who signs again under the same identifier pays once, even when both arrive concurrently", async () => {
  const bought = await purchase(lab);
  const signAgain = async (): Promise<Purchase> => ({
    ...bought,
    payment: await signPayment(bought.payer, { to: bought.payTo, amountUnits: bought.amount }),
  });
  const [id, otherId] = ["order_2026-11-27_0001", "order_2026-11-27_0002"];
  const orders = [bought, await signAgain(), await signAgain()];
  const answers = await Promise.all(orders.map((order) => ask("settle", order, id)));
  const refused = { success: false, errorReason: "IDEMPOTENCY_KEY_REUSED", transaction: "" };
  expect(answers.filter(({ success }) => success)).toHaveLength(1);
  expect(answers.filter(({ success }) => !success)).toEqual(Array(2).fill(expect.objectContaining(refused)));
  const next = await signAgain();
  expect(await ask("settle", next, id)).toMatchObject(refused);
  const invalid = { isValid: false, invalidReason: "IDEMPOTENCY_KEY_REUSED" };
  expect(await ask("verify", next, id)).toMatchObject(invalid);
  expect(await readUsdcBalance(lab.world.chain.rpcUrl, bought.payTo)).toBe(bought.amount);

  expect(await ask("verify", next, otherId)).toMatchObject({ isValid: true });
  const { userId } = await seedMerchant(lab.sql);
  const otherSeller = await makeKey(lab.sql, userId, ["facilitator"]);
  expect(await ask("verify", next, id, { key: otherSeller })).toMatchObject({ isValid: true });
  expect(await ask("settle", next, otherId)).toMatchObject({ success: true });
});

test("error: an identifier that a payer has added repeats no success for a seller who rules that out", async () => {
  const [bought, id] = [await purchase(lab), "chosen_by_the_payer_0001"];
  const { success, transaction } = await ask("settle", bought, id);
  expect(success).toBe(true);
  const errorReason = "invalid_exact_evm_nonce_already_used";
  for (const prefer of ["no-repeat", "respond-async, No-Repeat;x=1"]) {
    const ruledOut = { prefer };
    expect(await ask("settle", bought, id, ruledOut)).toMatchObject({
      success: false,
      errorReason,
      transaction,
    });
    const verdict = { isValid: false, invalidReason: errorReason };
    expect(await ask("verify", bought, id, ruledOut)).toMatchObject(verdict);
  }
  for (const prefer of ["", "no-repeats"])
    expect(await ask("settle", bought, id, { prefer })).toMatchObject({ success: true, transaction });
});

test("error: another authorization under the same Idempotency-Key is not settled, even when both arrive concurrently", async () => {
  const bought = await purchase(lab);
  const signAgain = async (): Promise<Purchase> => ({
    ...bought,
    payment: await signPayment(bought.payer, { to: bought.payTo, amountUnits: bought.amount }),
  });
  const settle = async (order: Purchase, idempotencyKey: string, key = lab.key) => {
    const { payload, requirements } = inVersion2(order);
    const response = await fetch(`${lab.url}/settle`, {
      method: "POST",
      headers: {
        ...{ "content-type": "application/json", authorization: `Bearer ${key}` },
        "idempotency-key": idempotencyKey,
      },
      body: JSON.stringify({ x402Version: 2, paymentPayload: payload, paymentRequirements: requirements }),
    });
    return (await response.json()) as { success: boolean };
  };
  const refused = { success: false, errorReason: "IDEMPOTENCY_KEY_REUSED", transaction: "" };
  const orders = [bought, await signAgain(), await signAgain()];
  const answers = await Promise.all(orders.map((order) => settle(order, "order 2026-1")));
  const [paid] = orders.filter((_, index) => answers[index]?.success);
  const [other] = orders.filter((_, index) => !answers[index]?.success);
  expect(answers.filter(({ success }) => success)).toHaveLength(1);
  expect(answers.filter(({ success }) => !success)).toEqual(Array(2).fill(expect.objectContaining(refused)));
  expect(await readUsdcBalance(lab.world.chain.rpcUrl, bought.payTo)).toBe(bought.amount);
  if (!paid || !other) throw new Error("not one of the three was paid");
  // the payment of the key gets its success again, and another payer's is another payment too
  expect(await settle(paid, "order 2026-1")).toMatchObject({ success: true });
  expect(await settle(await purchase(lab), "order 2026-1")).toMatchObject(refused);

  const { userId } = await seedMerchant(lab.sql);
  const otherSeller = await makeKey(lab.sql, userId, ["facilitator"]);
  expect(await settle(await purchase(lab), "order 2026-1", otherSeller)).toMatchObject({ success: true });
  expect(await settle(other, "order 2026-2")).toMatchObject({ success: true });
});

test("error: an authorization that is ignored for its identifier has not used the seller's Idempotency-Key, nor the other way round", async () => {
  const refused = { success: false, errorReason: "IDEMPOTENCY_KEY_REUSED" };
  const bought = await purchase(lab);
  const signAgain = async (): Promise<Purchase> => ({
    ...bought,
    payment: await signPayment(bought.payer, { to: bought.payTo, amountUnits: bought.amount }),
  });
  const [first, next] = ["order_2026-11-27_0101", "order_2026-11-27_0102"];
  const settle = async (order: Purchase, id: string, idempotencyKey: string) =>
    ask("settle", order, id, { idempotencyKey });
  expect(await settle(bought, first, "order 101")).toMatchObject({ success: true });
  expect(await settle(await signAgain(), first, "order 102")).toMatchObject(refused);
  expect(await settle(await signAgain(), next, "order 101")).toMatchObject(refused);
  expect(await settle(await signAgain(), next, "order 102")).toMatchObject({ success: true });
});

test("error: a key or identifier under which an authorization was asked about again is that authorization's", async () => {
  const refused = { success: false, errorReason: "IDEMPOTENCY_KEY_REUSED", transaction: "" };
  const bought = await purchase(lab);
  const signAgain = async (): Promise<Purchase> => ({
    ...bought,
    payment: await signPayment(bought.payer, { to: bought.payTo, amountUnits: bought.amount }),
  });
  const [first, again, free] = ["order_2026-11-27_0201", "order_2026-11-27_0202", "order_2026-11-27_0203"];
  const settle = async (order: Purchase, id: string, idempotencyKey: string) =>
    ask("settle", order, id, { idempotencyKey });
  expect(await settle(bought, first, "order 201")).toMatchObject({ success: true });
  await settle(bought, again, "order 202");
  // the payer signs again for the same purchase
  expect(await settle(await signAgain(), free, "order 202")).toMatchObject(refused);
  expect(await settle(await signAgain(), again, "order 203")).toMatchObject(refused);
  expect(await readUsdcBalance(lab.world.chain.rpcUrl, bought.payTo)).toBe(bought.amount);
  // refused, they have used nothing
  const other = await signAgain();
  expect(await settle(other, free, "order 203")).toMatchObject({ success: true });
  // and the success of the first is not the answer for the other's order
  expect(await settle(bought, first, "order 203")).toMatchObject(refused);
  expect(await settle(bought, free, "order 204")).toMatchObject(refused);
  // whose success it would be but for the other's identifier
  const repeated = { idempotencyKey: "order 201" };
  expect(await ask("verify", bought, first, repeated)).toMatchObject({ isValid: true });
  const invalid = { isValid: false, invalidReason: "IDEMPOTENCY_KEY_REUSED" };
  expect(await ask("verify", bought, free, repeated)).toMatchObject(invalid);
  expect(await ask("settle", bought, free, repeated)).toMatchObject(refused);
});
