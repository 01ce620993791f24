/** A reorganisation takes away the plain transfer that pays a link, and another payer pays it meanwhile through the service. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import { encodeTransfer } from "../../core/chain/usdc.ts";
import { RETURN_BLOCKS } from "../../core/domain/reorg-depth.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { makePerson, signCall, USDC } from "../links/evidence-side.ts";
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
import { balanceOf, countRelays, secondOrder, waitForLedger, waitUntilPutOff } from "./second-payer.ts";

const DEPTH_BLOCKS = 3;
/** A balance set by decree is undone with the blocks it was set in. */
const BURIED_BLOCKS = "0x8";

let lab: Lab;

beforeAll(async () => {
  lab = await startLab({ env: { CONFIRMATIONS_BASE_SEPOLIA: String(DEPTH_BLOCKS), PAY_WAIT_MS: "1000" } });
}, 120_000);

beforeEach(async () => {
  await lab.rpc("evm_setAutomine", [true]);
});

afterAll(() => lab?.stop());

/** A second payer's payment, accepted while the transfer that paid its link has just lost its block; `resend` puts that into the pool again. */
async function payAfterReorganisation(): Promise<{ second: Order; resend: () => Promise<unknown> }> {
  const order = await newOrder(lab);
  const second = await secondOrder(lab, order);
  const side = { rpcUrl: lab.chain.rpcUrl };
  const first = await makePerson(side);
  const amountUnits = BigInt(order.payment.value);
  await fundUsdc(side.rpcUrl, first.address, amountUnits);
  const data = encodeTransfer(lab.merchant.address, amountUnits);
  const { raw } = await signCall(side, first, { to: USDC, data });
  await lab.rpc("anvil_mine", [BURIED_BLOCKS]);
  await waitForLedger(lab);
  await lab.rpc("evm_setAutomine", [false]);
  await lab.rpc("eth_sendRawTransaction", [raw]);
  await lab.rpc("evm_mine");
  await waitForLink(lab, order.linkId, "PENDING");
  await lab.rpc("anvil_reorg", [1, []]);
  await lab.rpc("anvil_dropAllTransactions");
  await lab.rpc("evm_setTime", [Math.floor(Date.now() / 1000)]);
  await lab.rpc("evm_mine");
  await waitForLink(lab, order.linkId, "ACTIVE");
  const relays = await countRelays(lab);
  expect(await pay(lab, second)).toMatchObject({ status: 202 });
  await waitUntilPutOff(lab, second);
  expect(await paymentOf(lab, order.linkId)).toMatchObject({ state: "QUEUED" });
  expect(await countRelays(lab)).toBe(relays);
  return { second, resend: () => lab.rpc("eth_sendRawTransaction", [raw]) };
}

test("the transfer comes back: it pays the link, and the second payer is not charged", async () => {
  const { second, resend } = await payAfterReorganisation();
  const amountUnits = BigInt(second.payment.value);
  await resend();
  await lab.rpc("evm_mine");
  await lab.rpc("evm_setAutomine", [true]);
  await lab.rpc("anvil_mine", [`0x${(RETURN_BLOCKS + DEPTH_BLOCKS).toString(16)}`]);
  await waitForLink(lab, second.linkId, "PAID");
  expect(await pay(lab, second)).toMatchObject({ status: 409, body: { error: "LINK_ALREADY_PAID" } });
  expect(await countTransfers(lab, second.linkId)).toBe(1);
  expect(await balanceOf(lab, second)).toBe(amountUnits);
}, 120_000);

test("the transfer does not come back within fifteen blocks: the second payer pays the link", async () => {
  const { second } = await payAfterReorganisation();
  await lab.rpc("evm_setAutomine", [true]);
  await lab.rpc("anvil_mine", [`0x${RETURN_BLOCKS.toString(16)}`]);
  // in a block: blocks that are mined while it is only signed are none above its own
  await waitFor("the second payment to be mined", async () => {
    const payment = await paymentOf(lab, second.linkId);
    return payment?.state === "MINED";
  });
  await lab.rpc("anvil_mine", [`0x${DEPTH_BLOCKS.toString(16)}`]);
  await waitForLink(lab, second.linkId, "PAID");
  expect(await balanceOf(lab, second)).toBe(0n);
}, 120_000);
