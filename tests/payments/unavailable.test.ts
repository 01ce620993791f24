/** Before anything is sent: the payer gets a retryable error, the link is released, and the same authorization pays later. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type Hex, toHex } from "viem";
import {
  countTransfers,
  type Lab,
  linkStatus,
  newOrder,
  newOrders,
  type Order,
  pay,
  paymentOf,
  payWithRetries,
  relaysOf,
  startLab,
  waitFor,
  waitForLink,
} from "../support/relay-lab.ts";
import { broadcastAsStranger } from "../support/stranger.ts";
import { waitUntilPutOff, whileIndexerStands } from "./second-payer.ts";

/** The worker caches a balance for a second. */
const BALANCE_KEPT_MS = 1_100;
const TEN_ETH = 10n ** 19n;
/** Sixteen together may use 1.5 million at most. */
const GAS_FOR_A_FEW = 1_300_000n;
let lab: Lab;

beforeAll(async () => {
  lab = await startLab();
  expect(await payWithRetries(lab, await newOrder(lab))).toMatchObject({ status: 200 });
}, 120_000);

afterAll(() => lab?.stop());

/** The payment's public state, from its statusUrl: with documented codes only, whatever ended it. */
async function readState(linkId: string, paymentId: string | undefined): Promise<unknown> {
  const response = await fetch(`${lab.service.baseUrl}/v1/x402/${linkId}/payments/${paymentId}`);
  expect(response.status).toBe(200);
  return response.json();
}

async function expectReleased(order: Order, relaysBefore: number) {
  const { status, body } = await pay(lab, order);
  expect({ status, ...body }).toMatchObject({
    status: 500,
    success: false,
    error: "INTERNAL_ERROR",
    retryable: true,
    txHash: null,
  });
  expect(await linkStatus(lab, order.linkId)).toBe("ACTIVE");
  const payment = await paymentOf(lab, order.linkId);
  expect(payment).toMatchObject({
    state: "FAILED",
    reason: "RELAYER_UNAVAILABLE",
    relayId: null,
  });
  expect(await readState(order.linkId, payment?.id)).toMatchObject({
    state: "FAILED",
    success: false,
    settled: false,
    error: "INTERNAL_ERROR",
    message: body.message,
    retryable: true,
  });
  expect((await relaysOf(lab)).length).toBe(relaysBefore);
}

/** In microseconds; null while nothing has delayed it. */
async function unavailableSince({ linkId }: Order): Promise<bigint | null> {
  const [row] = await lab.sql<{ micros: bigint | null }[]>`
    select timestamp_micros(unavailable_since) as micros from payments where link_id = ${linkId}`;
  return row?.micros ?? null;
}

describe("nothing can be sent", () => {
  test("error: INTERNAL_ERROR while the relayer has no ETH; pays after it was funded", async () => {
    const before = (await relaysOf(lab)).length;
    await lab.rpc("anvil_setBalance", [lab.relayer, "0x0"]);
    await Bun.sleep(BALANCE_KEPT_MS);
    const order = await newOrder(lab);
    await expectReleased(order, before);
    await lab.rpc("anvil_setBalance", [lab.relayer, toHex(TEN_ETH)]);
    expect(await payWithRetries(lab, order)).toMatchObject({ status: 200, body: { success: true } });
  }, 120_000);

  test("behavior: a payment that another transaction has executed does not fail before the ledger has that block", async () => {
    const order = await newOrder(lab);
    await lab.rpc("anvil_setBalance", [lab.relayer, "0x0"]);
    await Bun.sleep(BALANCE_KEPT_MS);
    await whileIndexerStands(lab, async () => {
      pay(lab, order).catch(() => {});
      await waitUntilPutOff(lab, order);
      await broadcastAsStranger(lab.chain.rpcUrl, order.payment);
      const since = await unavailableSince(order);
      await waitFor("it to be given up, or tried anew", async () => {
        if ((await paymentOf(lab, order.linkId))?.state === "FAILED") return true;
        const now = await unavailableSince(order);
        return now !== null && now !== since;
      });
      expect(await paymentOf(lab, order.linkId)).toMatchObject({ state: "QUEUED", reason: null });
    });
    await lab.rpc("anvil_setBalance", [lab.relayer, toHex(TEN_ETH)]);
    await waitForLink(lab, order.linkId, "PAID");
    expect(await countTransfers(lab, order.linkId)).toBe(1);
  }, 120_000);

  test("error: INTERNAL_ERROR while the node is down; pays when it is back", async () => {
    const before = (await relaysOf(lab)).length;
    const order = await newOrder(lab);
    lab.proxy.fault = () => ({ kind: "status", status: 503 });
    await expectReleased(order, before);
    lab.proxy.fault = () => undefined;
    expect(await payWithRetries(lab, order)).toMatchObject({ status: 200, body: { success: true } });
  }, 120_000);

  test("behavior: a node unavailable for seconds only delays the payment", async () => {
    const order = await newOrder(lab);
    lab.proxy.fault = () => ({ kind: "status", status: 503 });
    const paying = pay(lab, order);
    await Bun.sleep(3_000);
    lab.proxy.fault = () => undefined;
    expect(await paying).toMatchObject({ status: 200, body: { success: true } });
  }, 120_000);

  test("behavior: a key that can pay for only a few payments relays a few at a time", async () => {
    const orders = await newOrders(lab, 16);
    const relaysBefore = (await relaysOf(lab)).length;
    const { baseFeePerGas } = (await lab.rpc("eth_getBlockByNumber", ["latest", false])) as {
      baseFeePerGas: Hex;
    };
    const maxFee = 2n * BigInt(baseFeePerGas) + BigInt((await lab.rpc("eth_maxPriorityFeePerGas")) as Hex);
    await lab.rpc("anvil_setBalance", [lab.relayer, toHex(GAS_FOR_A_FEW * maxFee)]);
    await Bun.sleep(BALANCE_KEPT_MS);
    lab.proxy.fault = () => ({ kind: "status", status: 503 });
    const paying = orders.map((order) => pay(lab, order));
    await waitFor("all of them to be queued", async () => {
      const [row] = await lab.sql<{ queued: bigint }[]>`
        select count(*) as queued from payments where state = 'QUEUED'`;
      return row?.queued === BigInt(orders.length);
    });
    lab.proxy.fault = () => undefined;
    await waitFor(
      "a first group to be relayed",
      async () => (await relaysOf(lab)).length > relaysBefore && (await Promise.race([...paying, false])),
    );
    // how many follow depends on the size of the groups: alone, each takes more gas
    await lab.rpc("anvil_setBalance", [lab.relayer, toHex(TEN_ETH)]);
    const answers = await Promise.all(paying);
    // 202 when its turn comes later than the answer has to
    for (const { status } of answers) expect(status).toBeOneOf([200, 202]);
    for (const { linkId } of orders) await waitForLink(lab, linkId, "PAID");
    expect((await relaysOf(lab)).length).toBeGreaterThan(relaysBefore + 1);
  }, 120_000);
});
