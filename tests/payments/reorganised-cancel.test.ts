/** A payer cancels an authorization while it is in flight, and a reorganisation puts our transaction before the cancellation. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { privateKeyToAccount } from "viem/accounts";
import type { Hex } from "../../core/domain/networks.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { makePerson, signCall, USDC } from "../links/evidence-side.ts";
import { makePayer, signCancel, signPayment } from "../support/payer.ts";
import {
  countTransfers,
  type Lab,
  newOrder,
  type Order,
  pay,
  paymentOf,
  startLab,
  waitFor,
  waitForLink,
} from "../support/relay-lab.ts";
import { balanceOf, secondOrder, waitForLedger } from "./second-payer.ts";

const DEPTH_BLOCKS = 3;
/** A balance set by decree is undone with the blocks it was set in. */
const BURIED_BLOCKS = "0x8";

let lab: Lab;

beforeAll(async () => {
  lab = await startLab({ env: { CONFIRMATIONS_BASE_SEPOLIA: String(DEPTH_BLOCKS), PAY_WAIT_MS: "1000" } });
}, 120_000);

afterAll(() => lab?.stop());

/** Two payers' orders of a link. Our transaction for the first is in a block behind the one that cancels its authorization; no further blocks come. */
async function payAndCancel(): Promise<{ first: Order; second: Order; answer: ReturnType<typeof pay> }> {
  const { linkId, payment } = await newOrder(lab);
  const payer = makePayer();
  const amountUnits = BigInt(payment.value);
  await fundUsdc(lab.chain.rpcUrl, payer.address, amountUnits);
  const first = { linkId, payment: await signPayment(payer, { to: lab.merchant.address, amountUnits }) };
  const second = await secondOrder(lab, first);
  const side = { rpcUrl: lab.chain.rpcUrl };
  const data = await signCancel(privateKeyToAccount(payer.privateKey), first.payment.nonce);
  const cancel = await signCall(side, await makePerson(side), { to: USDC, data });
  await lab.rpc("anvil_mine", [BURIED_BLOCKS]);
  await waitForLedger(lab);
  await lab.rpc("evm_setAutomine", [false]);
  const answer = pay(lab, first);
  await waitFor("the transaction in the pool", async () => {
    const { pending } = (await lab.rpc("txpool_status")) as { pending: string };
    return Number(pending) > 0;
  });
  await lab.rpc("eth_sendRawTransaction", [cancel.raw]);
  await lab.rpc("evm_mine");
  return { first, second, answer };
}

test("error: PAYMENT_IN_PROGRESS for a second payer until the first one's cancellation is deep; one of them is charged", async () => {
  const { first, second, answer } = await payAndCancel();
  const { linkId } = first;
  const amountUnits = BigInt(first.payment.value);
  await waitForLedger(lab);
  expect(await answer).toMatchObject({ status: 202 });
  expect(await paymentOf(lab, linkId)).toMatchObject({ state: "SIGNED" });
  expect(await pay(lab, second)).toMatchObject({ status: 409, body: { error: "PAYMENT_IN_PROGRESS" } });
  const [attempt] = await lab.sql<
    { txHash: Hex }[]
  >`select tx_hash from relay_attempts order by created_at desc limit 1`;
  const raw = await lab.rpc("eth_getRawTransactionByHash", [attempt?.txHash]);
  await lab.rpc("anvil_reorg", [1, [[raw, 0]]]);
  await lab.rpc("evm_setTime", [Math.floor(Date.now() / 1000)]);
  await lab.rpc("evm_setAutomine", [true]);
  await lab.rpc("anvil_mine", [BURIED_BLOCKS]);
  await waitForLink(lab, linkId, "PAID");
  expect(await pay(lab, second)).toMatchObject({ status: 409, body: { error: "LINK_ALREADY_PAID" } });
  expect(await countTransfers(lab, linkId)).toBe(1);
  expect(await balanceOf(lab, first)).toBe(0n);
  expect(await balanceOf(lab, second)).toBe(amountUnits);
}, 120_000);

test("error: NONCE_USED for a payer whose authorization was cancelled, once that is deep; another payer pays the link", async () => {
  const { first, second, answer } = await payAndCancel();
  const { linkId } = first;
  const amountUnits = BigInt(first.payment.value);
  await lab.rpc("evm_setAutomine", [true]);
  expect((await answer).status).toBeOneOf([202, 409]);
  await lab.rpc("anvil_mine", ["0x3"]);
  await waitForLink(lab, linkId, "ACTIVE");
  expect(await pay(lab, first)).toMatchObject({ status: 409, body: { error: "NONCE_USED" } });
  const paying = await pay(lab, second);
  expect(paying.status).toBeOneOf([200, 202]);
  await lab.rpc("anvil_mine", ["0x3"]);
  await waitForLink(lab, linkId, "PAID");
  expect(await balanceOf(lab, first)).toBe(amountUnits);
}, 120_000);
