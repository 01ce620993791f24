/** Limits of what relaying may cost in a day, and refusals that name the limit. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { toHex } from "viem";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { newPayer, sendUsdc } from "../links/payers.ts";
import { beginWithinDay } from "../support/begin-within-day.ts";
import { assertInvariants } from "../support/invariants.ts";
import { makePayer, signPayment, standardV1 } from "../support/payer.ts";
import {
  type Lab,
  linkStatus,
  newOrder,
  type Order,
  pay,
  paymentOf,
  payWithRetries,
  relaysOf,
  startLab,
  waitFor,
} from "../support/relay-lab.ts";
import { type SeededMerchant, seedLink, seedMerchant } from "../support/seed.ts";

/** Gas limit of one payment by itself, and what the local chain's relays offer for it: RELAY_MAX_FEE_GWEI. */
const PAYMENT_GAS = 150_000n;
const OFFER_WEI = 2n * 10n ** 9n;
const GWEI = 10n ** 9n;
const RESET = /it resets at \d{4}-\d\d-\d\dT00:00:00\.000Z/;

async function allMined(lab: Lab): Promise<void> {
  await waitFor("the receipts", async () => (await relaysOf(lab)).every((relay) => relay.gasUsed !== null));
}

async function budgetOf({ sql }: Lab, scope: string) {
  return sql<{ subject: string; reserved: bigint; used: bigint; maximum: bigint | null }[]>`
    select subject, reserved, used, maximum from relay_budgets where scope = ${scope}`;
}

beforeEach(beginWithinDay);

describe("RELAY_DAILY_FEE_MAX_WEI", () => {
  let lab: Lab;
  beforeAll(async () => {
    lab = await startLab({ env: { RELAY_DAILY_FEE_MAX_WEI: (PAYMENT_GAS * OFFER_WEI).toString() } });
    await setBaseFee(lab, GWEI);
  }, 120_000);
  afterAll(() => lab?.stop());

  test("an offer that just fits the fee budget is relayed, and its receipt replaces the reservation", async () => {
    expect(await payWithRetries(lab, await newOrder(lab))).toMatchObject({ status: 200 });
    await allMined(lab);
    const [{ paid } = { paid: 0n }] = await lab.sql<{ paid: bigint }[]>`
      select sum(fee_wei)::numeric(78, 0) as paid from relays`;
    expect(paid).toBeGreaterThan(0n);
    expect(await budgetOf(lab, "FEES")).toEqual([
      { subject: "base-sepolia", reserved: 0n, used: paid, maximum: PAYMENT_GAS * OFFER_WEI },
    ] as never);
  }, 120_000);

  test("error: INTERNAL_ERROR with the figures of an exhausted fee budget; nothing is sent and the link is released", async () => {
    const order = await newOrder(lab);
    const { status, body } = await pay(lab, order);
    expect({ status, body }).toMatchObject({
      status: 500,
      body: { error: "INTERNAL_ERROR", retryable: true },
    });
    expect(messageOf(body)).toContain(`of ${PAYMENT_GAS * OFFER_WEI} wei`);
    expect(messageOf(body)).toMatch(RESET);
    expect(await linkStatus(lab, order.linkId)).toBe("ACTIVE");
    expect((await relaysOf(lab)).length).toBe(1);
  }, 120_000);
});

describe("RELAY_DAILY_FEE_MAX_WEI and a transaction that blocks skip", () => {
  /** Twice the base fee of 1 gwei and the node's tip of 1 gwei. */
  const FIRST_OFFER_WEI = 3n * GWEI;
  const BLOCKS = 6;
  let lab: Lab;
  beforeAll(async () => {
    const env = { RELAY_MAX_FEE_GWEI: "50", PAY_WAIT_MS: "500" };
    const budget = (PAYMENT_GAS * FIRST_OFFER_WEI).toString();
    lab = await startLab({ env: { ...env, RELAY_DAILY_FEE_MAX_WEI: budget } });
  }, 120_000);
  afterAll(() => lab?.stop());

  async function attempts() {
    return lab.sql<{ maxFeePerGas: bigint; sends: number }[]>`
      select max_fee_per_gas, sends from relay_attempts`;
  }

  test("behavior: no higher fee is offered than the budget allows; the first offer pays when gas is cheap again", async () => {
    await setBaseFee(lab, GWEI);
    const order = await newOrder(lab);
    await lab.rpc("evm_setAutomine", [false]);
    expect(await pay(lab, order)).toMatchObject({ status: 202 });
    await waitFor("the first offer", async () => (await attempts()).length > 0);
    let mined = 0;
    let minedMs = 0;
    await waitFor("blocks that skip it", async () => {
      if (Date.now() - minedMs < 1_000) return false;
      minedMs = Date.now();
      await setBaseFee(lab, 4n * GWEI);
      mined += 1;
      const [first] = await attempts();
      return mined > BLOCKS && (first?.sends ?? 0) > 1;
    });
    expect((await attempts()).map(({ maxFeePerGas }) => maxFeePerGas)).toEqual([FIRST_OFFER_WEI]);
    await waitFor("the link to be paid", async () => {
      if ((await linkStatus(lab, order.linkId)) === "PAID") return true;
      if (Date.now() - minedMs < 1_000) return false;
      minedMs = Date.now();
      await setBaseFee(lab, GWEI);
      return false;
    });
    expect(await attempts()).toHaveLength(1);
  }, 120_000);
});

async function setBaseFee({ rpc }: Lab, wei: bigint): Promise<void> {
  await rpc("anvil_setNextBlockBaseFeePerGas", [toHex(wei)]);
  await rpc("evm_mine");
}

describe("a merchant's gas budget", () => {
  let lab: Lab;
  beforeAll(async () => {
    lab = await startLab();
  }, 120_000);
  afterAll(() => lab?.stop());

  async function merchantWith(gasPerDay: bigint): Promise<SeededMerchant> {
    const merchant = await seedMerchant(lab.sql);
    await lab.sql`update users set relay_gas_per_day = ${gasPerDay} where id = ${merchant.userId}`;
    return merchant;
  }

  const orderFor = (merchant: SeededMerchant) => newOrder({ ...lab, merchant });

  test("error: RELAY_BUDGET_SPENT by GET, POST and header when a merchant's budget is one unit short; nothing is stored", async () => {
    const order = await orderFor(await merchantWith(PAYMENT_GAS - 1n));
    await expectUnrelayed(lab, order, "RELAY_BUDGET_SPENT", RESET);
    expect(await paymentOf(lab, order.linkId)).toBeUndefined();
  }, 120_000);

  test("a payment that just fits its merchant's budget is paid; the next one is refused, another merchant's is not", async () => {
    const merchant = await merchantWith(PAYMENT_GAS);
    expect(await pay(lab, await orderFor(merchant))).toMatchObject({ status: 200 });
    await allMined(lab);
    await expectUnrelayed(lab, await orderFor(merchant), "RELAY_BUDGET_SPENT", RESET);
    expect(await payWithRetries(lab, await newOrder(lab))).toMatchObject({ status: 200 });
  }, 120_000);

  test("behavior: concurrent payments are relayed while the gas lasts, the others are refused and their links released", async () => {
    const merchant = await merchantWith(2n * PAYMENT_GAS);
    const orders: Order[] = [];
    while (orders.length < 6) orders.push(await orderFor(merchant));
    const answers = await Promise.all(orders.map((order) => pay(lab, order)));
    await allMined(lab);
    const refused = answers.filter(({ status }) => status !== 200);
    for (const { status, body } of refused) {
      expect({ status, error: body.error }).toEqual({ status: 422, error: "RELAY_BUDGET_SPENT" });
      expect(messageOf(body)).toMatch(RESET);
    }
    const [budget] = (await budgetOf(lab, "MERCHANT")).filter(({ subject }) => subject === merchant.userId);
    expect(answers.length - refused.length).toBeGreaterThanOrEqual(2);
    expect(budget?.used).toBeLessThanOrEqual(2n * PAYMENT_GAS);
    expect((budget?.used ?? 0n) + PAYMENT_GAS).toBeGreaterThan(2n * PAYMENT_GAS);
    for (const [index, order] of orders.entries()) {
      const isPaid = answers[index]?.status === 200;
      expect(await linkStatus(lab, order.linkId)).toBe(isPaid ? "PAID" : "ACTIVE");
    }
    await assertInvariants(lab.sql, lab.chain);
  }, 120_000);
});

describe("RELAY_MIN_AMOUNT", () => {
  const MIN_UNITS = 1_000n;
  let lab: Lab;
  beforeAll(async () => {
    lab = await startLab();
  }, 120_000);
  afterAll(() => lab?.stop());

  async function orderOf(amountUnits: bigint): Promise<Order> {
    const linkId = await seedLink(lab.sql, lab.merchant, { amountUnits });
    const payer = makePayer();
    await fundUsdc(lab.chain.rpcUrl, payer.address, amountUnits);
    return { linkId, payment: await signPayment(payer, { to: lab.merchant.address, amountUnits }) };
  }

  test("RELAY_MIN_AMOUNT is relayed, one unit less is not", async () => {
    await expectUnrelayed(lab, await orderOf(MIN_UNITS - 1n), "AMOUNT_TOO_SMALL_TO_RELAY", /0\.000999 USDC/);
    expect(await pay(lab, await orderOf(MIN_UNITS))).toMatchObject({ status: 200 });
  }, 120_000);

  test("behavior: 20 links of 0.000001 USDC that their own merchant pays cost the relayer nothing", async () => {
    await allMined(lab);
    const read = () => lab.rpc("eth_getBalance", [lab.relayer, "latest"]);
    const [balance, relays] = [await read(), (await relaysOf(lab)).length];
    for (let count = 0; count < 20; count++) {
      const order = await orderOf(1n);
      expect(await pay(lab, order)).toMatchObject({
        status: 422,
        body: { error: "AMOUNT_TOO_SMALL_TO_RELAY" },
      });
      expect(await paymentOf(lab, order.linkId)).toBeUndefined();
    }
    expect(await read()).toBe(balance);
    expect((await relaysOf(lab)).length).toBe(relays);
  }, 120_000);

  test("behavior: a link below RELAY_MIN_AMOUNT is paid by a transfer", async () => {
    const amountUnits = MIN_UNITS - 7n;
    const linkId = await seedLink(lab.sql, lab.merchant, { amountUnits });
    const { rpcUrl } = lab.chain;
    await sendUsdc(rpcUrl, await newPayer(rpcUrl, amountUnits), lab.merchant.address, amountUnits);
    await waitFor("the transfer to pay the link", async () => (await linkStatus(lab, linkId)) === "PAID");
  }, 120_000);
});

function messageOf(body: object): string {
  return (body as { message?: string }).message ?? "";
}

/** GET answers 402 without terms, POST 422, the header's way 402 with the reason; all name the limit. */
async function expectUnrelayed(lab: Lab, order: Order, code: string, text: RegExp): Promise<void> {
  const url = `${lab.service.baseUrl}/v1/x402/${order.linkId}`;
  const asked = await fetch(url);
  const terms = (await asked.json()) as { accepts: unknown[]; error: string; message: string };
  expect({ status: asked.status, error: terms.error, accepts: terms.accepts }).toEqual({
    ...{ status: 402, error: code, accepts: [] },
  });
  expect(terms.message).toMatch(text);
  const { status, body } = await pay(lab, order);
  expect({ status, error: body.error }).toEqual({ status: 422, error: code });
  expect(messageOf(body)).toMatch(text);
  const header = Buffer.from(JSON.stringify(standardV1(order.payment))).toString("base64");
  const shown = await fetch(url, { headers: { "x-payment": header } });
  expect({ status: shown.status, body: await shown.json() }).toMatchObject({
    ...{ status: 402, body: { error: code, accepts: [] } },
  });
  expect(await linkStatus(lab, order.linkId)).toBe("ACTIVE");
}
