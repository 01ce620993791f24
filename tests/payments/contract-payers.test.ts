/** Payers with code: passkey wallets pay like all others; a payer that burns gas is stopped and harms no other payment. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Hex } from "viem";
import {
  type Lab,
  linkStatus,
  newOrder,
  newOrders,
  pay,
  paymentOf,
  relaysOf,
  startLab,
  waitFor,
  waitForLink,
} from "../support/relay-lab.ts";
import { contractOrder, GAS_BOMB, orderOf, walletOrder, YES_SAYER } from "./contract-orders.ts";

const CONTRACT_GAS = 200_000n;
/** Contract code that jumps in a circle until the gas is gone. */
const ENDLESS: Hex = "0x5b600056";

let lab: Lab;

beforeAll(async () => {
  lab = await startLab();
}, 120_000);

afterAll(() => lab?.stop());

describe("a payer with code", () => {
  for (const isDeployed of [true, false]) {
    const name = isDeployed ? "deployed" : "not deployed yet (ERC-6492)";
    test(`a passkey wallet that is ${name} pays a link over HTTP`, async () => {
      const order = await walletOrder(lab, { isDeployed });
      expect(await pay(lab, order)).toMatchObject({ status: 200, body: { success: true, settled: true } });
      expect(await linkStatus(lab, order.linkId)).toBe("PAID");
      const code = await lab.rpc("eth_getCode", [order.payment.from, "latest"]);
      expect(code).not.toBe("0x");
    }, 120_000);
  }

  test("error: INVALID_SIGNATURE for a wallet whose passkey signed something else", async () => {
    const [order, other] = [
      await walletOrder(lab, { isDeployed: true }),
      await walletOrder(lab, { isDeployed: true }),
    ];
    const payment = { ...order.payment, signature: other.payment.signature };
    expect(await pay(lab, { ...order, payment })).toMatchObject({
      status: 400,
      body: { error: "INVALID_SIGNATURE" },
    });
    expect(await linkStatus(lab, order.linkId)).toBe("ACTIVE");
  }, 120_000);

  test("a keyed account that delegates to code (EIP-7702) pays alone, with the signature of its key", async () => {
    const order = await newOrder(lab);
    await lab.rpc("anvil_setCode", [order.payment.from, YES_SAYER]);
    const mates = await newOrders(lab, 5);
    const answers = await Promise.all([order, ...mates].map((one) => pay(lab, one)));
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    const own = await paymentOf(lab, order.linkId);
    const [row] = await lab.sql<{ together: number }[]>`
      select count(*)::int as together from payments where relay_id = ${own?.relayId ?? 0n}`;
    expect(row?.together).toBe(1);
  }, 120_000);

  test("behavior: a keyed account whose code burns all gas is taken out of its batch, and the others stay together", async () => {
    const order = await newOrder(lab);
    await lab.rpc("anvil_setCode", [order.payment.from, ENDLESS]);
    const mates = await newOrders(lab, 5);
    await lab.service.kill("worker");
    const paid = [order, ...mates].map((one) => pay(lab, one));
    await waitFor("all to be queued", async () => {
      const rows = await Promise.all([order, ...mates].map(({ linkId }) => paymentOf(lab, linkId)));
      return rows.every((row) => row !== undefined);
    });
    await lab.service.start("worker");
    const [bad, ...good] = await Promise.all(paid);
    expect(bad?.status).toBeOneOf([400, 403]);
    expect(good.map(({ status }) => status)).toEqual(good.map(() => 200));
    const relays = await Promise.all(
      mates.map(async ({ linkId }) => (await paymentOf(lab, linkId))?.relayId),
    );
    expect(new Set(relays).size).toBe(1);
    expect((await paymentOf(lab, order.linkId))?.relayId ?? null).toBeNull();
    expect(await linkStatus(lab, order.linkId)).toBe("ACTIVE");
  }, 120_000);
});

describe("a payer that burns gas", () => {
  test("behavior: a payer that burns gas wastes at most three transactions, and 20 other payments are paid meanwhile", async () => {
    const bomb = await contractOrder(lab, GAS_BOMB);
    const others = await newOrders(lab, 20);
    const [answer, ...rest] = await Promise.all([bomb, ...others].map((one) => pay(lab, one)));
    expect(rest.map(({ status }) => status)).toEqual(rest.map(() => 200));
    expect(answer?.status).toBeOneOf([202, 403]);
    await waitForLink(lab, bomb.linkId, "ACTIVE");
    expect(await paymentOf(lab, bomb.linkId)).toMatchObject({
      state: "FAILED",
      reason: "PAYMENT_NOT_ALLOWED",
      reverts: 3,
    });
    const burnt = await waitFor("the receipts", async () => {
      const rows = (await relaysOf(lab)).filter((relay) => relay.succeeded === false);
      return rows.length === 3 && rows;
    });
    for (const { gasUsed } of burnt) expect(gasUsed).toBeLessThanOrEqual(CONTRACT_GAS);
  }, 120_000);

  test("error: PAYMENT_NOT_ALLOWED for the next payment of a payer that burned gas, before more is spent", async () => {
    const [row] = await lab.sql<{ payer: Hex }[]>`select payer from payments where reverts >= 3`;
    if (!row) throw new Error("no payer wasted three transactions");
    const before = (await relaysOf(lab)).length;
    const order = await orderOf(lab, row.payer, async () => "0x1234");
    expect(await pay(lab, order)).toMatchObject({ status: 403, body: { error: "PAYMENT_NOT_ALLOWED" } });
    expect(await linkStatus(lab, order.linkId)).toBe("ACTIVE");
    expect((await relaysOf(lab)).length).toBe(before);
  }, 120_000);
});
