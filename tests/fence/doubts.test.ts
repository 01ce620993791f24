/** A payment that ended without a node's word may have been executed by somebody else all the same: the link's next payment asks. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { callRpc } from "../../local/rpc.ts";
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
} from "../relay/lab.ts";
import { broadcastAsStranger } from "../support/stranger.ts";
import { balanceOf, countRelays, secondOrder, waitForLedger } from "./second-payer.ts";

let lab: Lab;

beforeAll(async () => {
  lab = await startLab();
  expect(await pay(lab, await newOrder(lab))).toMatchObject({ status: 200 });
}, 60_000);

beforeEach(() => waitForLedger(lab));

afterEach(async () => {
  lab.proxy.fault = () => undefined;
  await lab.rpc("evm_setAutomine", [true]);
});

afterAll(() => lab?.stop());

/** Shows an order while no node answers, until it has ended without one. `meanwhile` runs once it is stored. */
async function endInDoubt(order: Order, meanwhile: () => Promise<unknown> = async () => {}): Promise<void> {
  lab.proxy.fault = () => ({ kind: "status", status: 503 });
  const paying = pay(lab, order);
  await waitFor("the payment to be stored", async () => await paymentOf(lab, order.linkId));
  await meanwhile();
  expect(await paying).toMatchObject({ status: 500, body: { error: "INTERNAL_ERROR", retryable: true } });
  lab.proxy.fault = () => undefined;
}

describe("the node is away while the first payer's authorization is executed by a stranger", () => {
  test("error: LINK_ALREADY_PAID for the second payer, whose money stays his", async () => {
    const order = await newOrder(lab);
    const second = await secondOrder(lab, order);
    const [funds, relays] = [await balanceOf(lab, second), await countRelays(lab)];
    await endInDoubt(order, async () => {
      await Bun.sleep(1_500);
      await broadcastAsStranger(lab.chain.rpcUrl, order.payment);
    });
    await Bun.sleep(200);
    expect(await pay(lab, second)).toMatchObject({ status: 409, body: { error: "LINK_ALREADY_PAID" } });
    await waitForLink(lab, order.linkId, "PAID");
    expect(await balanceOf(lab, second)).toBe(funds);
    expect(await countTransfers(lab, order.linkId)).toBe(1);
    expect(await countRelays(lab)).toBe(relays);
  }, 40_000);

  test("error: LINK_ALREADY_PAID also when the stranger's transaction is in no block yet when the second payer comes", async () => {
    const order = await newOrder(lab);
    const second = await secondOrder(lab, order);
    const funds = await balanceOf(lab, second);
    await endInDoubt(order);
    await waitForLedger(lab);
    await lab.rpc("evm_setAutomine", [false]);
    const executing = broadcastAsStranger(lab.chain.rpcUrl, order.payment);
    await waitFor("the stranger's transaction to wait for a block", async () => {
      const status = (await callRpc(lab.chain.rpcUrl, "txpool_status", [])) as { pending: string };
      return Number(status.pending) > 0;
    });
    const relays = await countRelays(lab);
    const paying = pay(lab, second);
    await waitFor("the second payment to be put off", async () => {
      const [row] = await lab.sql<{ isPutOff: boolean }[]>`
        select unavailable_since is not null or state <> 'QUEUED' as is_put_off
        from payments
        where payer = ${second.payment.from}`;
      return row?.isPutOff;
    });
    expect(await countRelays(lab)).toBe(relays);
    await lab.rpc("evm_setAutomine", [true]);
    await lab.rpc("evm_mine");
    await executing;
    expect(await paying).toMatchObject({ status: 409, body: { error: "LINK_ALREADY_PAID" } });
    await waitForLink(lab, order.linkId, "PAID");
    expect(await balanceOf(lab, second)).toBe(funds);
  }, 40_000);
});
