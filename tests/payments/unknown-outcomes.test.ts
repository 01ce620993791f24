/** A payment that ended while no node answered may have been executed by another transaction: the link's next payment checks it. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { NETWORKS } from "../../core/domain/networks.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { makePayer, signPayment } from "../support/payer.ts";
import {
  countTransfers,
  type Lab,
  newOrder,
  type Order,
  pay,
  paymentOf,
  payWithRetries,
  startLab,
  waitFor,
  waitForLink,
} from "../support/relay-lab.ts";
import { broadcastAsStranger, cancelAuthorization } from "../support/stranger.ts";
import { balanceOf, countRelays, secondOrder, waitForLedger, waitUntilPutOff } from "./second-payer.ts";

const USDC = NETWORKS["base-sepolia"].usdc.address;
let lab: Lab;

beforeAll(async () => {
  lab = await startLab();
  expect(await payWithRetries(lab, await newOrder(lab))).toMatchObject({ status: 200 });
}, 120_000);

beforeEach(() => waitForLedger(lab));

afterEach(async () => {
  lab.proxy.fault = () => undefined;
  await lab.rpc("evm_setAutomine", [true]);
});

afterAll(() => lab?.stop());

/** What the link's public data say. */
async function isUncertain({ linkId }: Order): Promise<boolean> {
  const response = await fetch(`${lab.service.baseUrl}/api/v1/public/payment-links/${linkId}/data`);
  return ((await response.json()) as { paymentUncertain: boolean }).paymentUncertain;
}

/** Pays an order while no node answers, until it has ended. `onStored` runs once it is stored. */
async function endUnknown(order: Order, onStored: () => Promise<unknown> = async () => {}): Promise<void> {
  lab.proxy.fault = () => ({ kind: "status", status: 503 });
  const paying = pay(lab, order);
  await waitFor("the payment to be stored", async () => await paymentOf(lab, order.linkId));
  await onStored();
  expect(await paying).toMatchObject({ status: 500, body: { error: "INTERNAL_ERROR", retryable: true } });
  lab.proxy.fault = () => undefined;
}

describe("the node is unavailable while the first payer's authorization is executed by an external transaction", () => {
  test("error: LINK_ALREADY_PAID for the second payer, who is not charged", async () => {
    const order = await newOrder(lab);
    const second = await secondOrder(lab, order);
    const [funds, relays] = [await balanceOf(lab, second), await countRelays(lab)];
    await endUnknown(order, async () => {
      await waitUntilPutOff(lab, order);
      await broadcastAsStranger(lab.chain.rpcUrl, order.payment);
    });
    expect(await payWithRetries(lab, second)).toMatchObject({
      status: 409,
      body: { error: "LINK_ALREADY_PAID" },
    });
    await waitForLink(lab, order.linkId, "PAID");
    expect(await balanceOf(lab, second)).toBe(funds);
    expect(await countTransfers(lab, order.linkId)).toBe(1);
    expect(await countRelays(lab)).toBe(relays);
  }, 120_000);

  test("error: LINK_ALREADY_PAID even if the external transaction is still unmined when the second payer pays", async () => {
    const order = await newOrder(lab);
    const second = await secondOrder(lab, order);
    const funds = await balanceOf(lab, second);
    await endUnknown(order);
    await waitForLedger(lab);
    await lab.rpc("evm_setAutomine", [false]);
    const executing = broadcastAsStranger(lab.chain.rpcUrl, order.payment);
    await waitFor("the external transaction to wait for a block", async () => {
      const status = (await callRpc(lab.chain.rpcUrl, "txpool_status", [])) as { pending: string };
      return Number(status.pending) > 0;
    });
    const relays = await countRelays(lab);
    const paying = payWithRetries(lab, second);
    await waitUntilPutOff(lab, second);
    expect(await countRelays(lab)).toBe(relays);
    await lab.rpc("evm_setAutomine", [true]);
    await lab.rpc("evm_mine");
    await executing;
    expect(await paying).toMatchObject({ status: 409, body: { error: "LINK_ALREADY_PAID" } });
    await waitForLink(lab, order.linkId, "PAID");
    expect(await balanceOf(lab, second)).toBe(funds);
  }, 120_000);
});

describe("a link with the maximum of unknown outcomes", () => {
  /** That many payments of other payers, ended while no node answered. */
  async function addUnknownOutcomes({ linkId, payment }: Order, count: number): Promise<void> {
    await lab.sql`
      insert into payments (
        id, link_id, network, token, payer, payer_kind, recipient, amount_units, valid_after, valid_before, nonce, signature,
        state, reason, doubt_since, doubt_until
      )
      select
        'pay_' || md5(random()::text), ${linkId}, 'base-sepolia', ${USDC}, substr(sha256(random()::text::bytea), 1, 20),
        'EOA', ${payment.to}, ${payment.value}::bigint, 0, ${payment.validBefore}, sha256(random()::text::bytea), '',
        'FAILED', 'RELAYER_UNAVAILABLE', now(), now() + interval '5 minutes'
      from generate_series(1, ${count}::int)`;
  }

  test("error: INTERNAL_ERROR, retryable and without a row, at the maximum of unknown outcomes; one less, and it pays", async () => {
    const order = await newOrder(lab);
    await addUnknownOutcomes(order, 8);
    expect(await pay(lab, order)).toMatchObject({
      status: 500,
      body: { success: false, error: "INTERNAL_ERROR", retryable: true, txHash: null },
    });
    expect(await lab.sql`select id from payments where payer = ${order.payment.from}`).toHaveLength(0);
    const other = await newOrder(lab);
    await addUnknownOutcomes(other, 7);
    expect(await pay(lab, other)).toMatchObject({ status: 200, body: { success: true } });
  }, 120_000);
});

describe("an authorization with unknown outcome that its payer has cancelled", () => {
  test("behavior: a cancelled authorization of unknown outcome delays the next payment only until the ledger has decided", async () => {
    const order = await newOrder(lab);
    const first = makePayer();
    const terms = { to: lab.merchant.address, amountUnits: BigInt(order.payment.value) };
    const payment = await signPayment(first, terms);
    expect(await isUncertain(order)).toBe(false);
    await endUnknown({ linkId: order.linkId, payment });
    expect(await isUncertain(order)).toBe(true);
    await cancelAuthorization(lab.chain.rpcUrl, first, payment.nonce);
    expect(await payWithRetries(lab, order)).toMatchObject({ status: 200, body: { success: true } });
    await waitForLink(lab, order.linkId, "PAID");
    expect(await isUncertain(order)).toBe(false);
  }, 120_000);
});
