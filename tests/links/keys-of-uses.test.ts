/** A payer's idempotency key on a link that many payers pay: it has one payment, whatever authorization comes with it. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { openClient } from "../support/http-client.ts";
import { makePayer, type SignedPayment, shapeA, signPayment } from "../support/payer.ts";
import { type PayerSide, startPayerSide } from "./payer-side.ts";

const LINKS = "/v1/payment-links";

let side: PayerSide;
beforeAll(async () => {
  side = await startPayerSide();
}, 120_000);
afterAll(() => side?.world.stop());

const units = (amount: number) => BigInt(Math.round(amount * 1e6));
const paymentsOf = async (id: string) => (await side.ann.client.get(`${LINKS}/${id}/payments`)).body.payments;

async function reusable(fields: Record<string, unknown>): Promise<string> {
  const given = { description: "Ticket", maxPayments: null, ...fields };
  const { status, body } = await side.ann.client.post(LINKS, given);
  expect(status).toBe(201);
  return body.id;
}

const pay = (id: string, payment: SignedPayment, headers: Record<string, string> = {}) =>
  openClient(side.world.baseUrl).post(`/v1/x402/${id}/pay`, shapeA(payment), headers);

const signAs = async (payer: ReturnType<typeof makePayer>, amount: number) => {
  await fundUsdc(side.rpcUrl, payer.address, 100_000_000n);
  return signPayment(payer, { to: side.wallet, amountUnits: units(amount) });
};
const errorOf = ({ status, body }: Awaited<ReturnType<typeof pay>>) => [status, body.error];

test("a payer with a key pays once, however many authorizations come with it, sequentially or concurrently", async () => {
  const id = await reusable({ amount: 2.7 });
  const [ann, ben] = [makePayer(), makePayer()];
  const key = { "idempotency-key": "order 1" };
  const first = await signAs(ann, 2.7);
  const paid = await pay(id, first, key);
  expect(errorOf(paid)).toEqual([200, null]);
  expect(errorOf(await pay(id, await signAs(ann, 2.7), key))).toEqual([409, "IDEMPOTENCY_KEY_REUSED"]);
  const again = await pay(id, first, key);
  expect([again.status, again.body.txHash]).toEqual([200, paid.body.txHash]);
  const without = await pay(id, first);
  expect([without.status, without.body.txHash]).toEqual([409, paid.body.txHash]);
  const atOnce = await Promise.all([1, 2, 3, 4].map(async () => pay(id, await signAs(ben, 2.7), key)));
  expect(atOnce.map(({ status }) => status).sort()).toEqual([200, 409, 409, 409]);
  expect(errorOf(await pay(id, await signAs(ann, 2.7), { "idempotency-key": "order 2" }))).toEqual([
    200,
    null,
  ]);
  expect(await paymentsOf(id)).toHaveLength(3);
}, 120_000);

test("a payer may send the key with a payment made without it, and pays no other use", async () => {
  const id = await reusable({ amount: 2.8 });
  const payment = await signAs(makePayer(), 2.8);
  const paid = await pay(id, payment);
  const again = await pay(id, payment, { "idempotency-key": "late" });
  expect([again.status, again.body.txHash]).toEqual([409, paid.body.txHash]);
  expect(await paymentsOf(id)).toHaveLength(1);
  const other = await reusable({ amount: 2.8 });
  expect(errorOf(await pay(other, payment, { "idempotency-key": "late" }))).toEqual([409, "NONCE_USED"]);
  expect(await paymentsOf(other)).toHaveLength(0);
}, 120_000);

test("another amount under the key is refused; a failed payment is retried with it", async () => {
  const id = await reusable({ amount: null, minAmount: 1, maxAmount: 9 });
  const payer = makePayer();
  const key = { "idempotency-key": "order 3" };
  const poor = await signPayment(payer, { to: side.wallet, amountUnits: units(3) });
  expect(errorOf(await pay(id, poor, key))).toEqual([422, "INSUFFICIENT_FUNDS"]);
  expect(errorOf(await pay(id, await signAs(payer, 4), key))).toEqual([409, "IDEMPOTENCY_KEY_REUSED"]);
  expect(errorOf(await pay(id, await signAs(payer, 3), key))).toEqual([200, null]);
  expect(errorOf(await pay(id, poor, key))).toEqual([409, "IDEMPOTENCY_KEY_REUSED"]);
  expect(await paymentsOf(id)).toHaveLength(1);
}, 120_000);
