/** Payments that became obsolete while they waited are never sent. */
import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { toHex } from "viem";
import { fundUsdc, readUsdcBalance } from "../../local/chain/usdc.ts";
import { makePayer, signPayment } from "../support/payer.ts";
import {
  type Lab,
  linkStatus,
  newOrder,
  pay,
  paymentOf,
  payWithRetries,
  relaysOf,
  startLab,
  waitFor,
  waitForLink,
} from "../support/relay-lab.ts";
import { broadcastAsStranger } from "../support/stranger.ts";

/** The worker caches a balance for a second. */
const BALANCE_KEPT_MS = 1_100;
let lab: Lab;

beforeAll(async () => {
  lab = await startLab();
}, 120_000);

afterEach(() => lab.service.startMissing());
afterAll(() => lab?.stop());

async function setRelayerBalance(wei: bigint): Promise<void> {
  await lab.rpc("anvil_setBalance", [lab.relayer, toHex(wei)]);
  await Bun.sleep(BALANCE_KEPT_MS);
}

test("error: LINK_ALREADY_PAID when another transfer pays the link while a payment waits; its payer is not charged", async () => {
  const order = await newOrder(lab);
  const amount = BigInt(order.payment.value);
  const other = makePayer();
  await fundUsdc(lab.chain.rpcUrl, other.address, amount);
  await setRelayerBalance(0n);
  const paying = payWithRetries(lab, order);
  await waitForLink(lab, order.linkId, "PENDING");
  const terms = { to: lab.merchant.address, amountUnits: amount };
  await broadcastAsStranger(lab.chain.rpcUrl, await signPayment(other, terms));
  await waitForLink(lab, order.linkId, "PAID");
  await setRelayerBalance(10n ** 19n);
  expect(await paying).toMatchObject({ status: 409, body: { success: false, error: "LINK_ALREADY_PAID" } });
  expect(await linkStatus(lab, order.linkId)).toBe("PAID");
  expect(await readUsdcBalance(lab.chain.rpcUrl, order.payment.from)).toBe(amount * 2n);
  expect(await relaysOf(lab)).toEqual([]);
}, 120_000);

test("error: EXPIRED_TRANSFER when the window ends while a payment waits; nothing is sent and the link is released", async () => {
  const order = await newOrder(lab, { validForS: 30 });
  const before = (await relaysOf(lab)).length;
  await setRelayerBalance(0n);
  const paying = payWithRetries(lab, order);
  await waitForLink(lab, order.linkId, "PENDING");
  // the chain's clock decides, not ours
  await lab.rpc("evm_increaseTime", [60]);
  await lab.rpc("evm_mine");
  await setRelayerBalance(10n ** 19n);
  expect(await paying).toMatchObject({ status: 400, body: { error: "EXPIRED_TRANSFER" } });
  expect(await linkStatus(lab, order.linkId)).toBe("ACTIVE");
  expect((await relaysOf(lab)).length).toBe(before);
}, 120_000);

test.each([
  [
    "that no key can relay for long",
    async () => {
      await lab.sql`update payments set unavailable_since = now() - interval '1 minute' where state = 'QUEUED'`;
    },
  ],
  [
    "whose window ends",
    async () => {
      await lab.rpc("evm_increaseTime", [3_600]);
      await lab.rpc("evm_mine");
    },
  ],
])(
  "behavior: a payment %s is not FAILED when another transaction has executed it and the ledger is behind",
  async (_, endIt) => {
    const order = await newOrder(lab);
    await setRelayerBalance(0n);
    const paying = pay(lab, order);
    await waitForLink(lab, order.linkId, "PENDING");
    await lab.service.kill("indexer");
    await broadcastAsStranger(lab.chain.rpcUrl, order.payment);
    await endIt();
    await waitFor("the worker to have simulated it again", async () => {
      const [row] = await lab.sql<{ isSimulated: boolean }[]>`
      select unavailable_since is null or state <> 'QUEUED' as is_simulated
      from payments
      where link_id = ${order.linkId}`;
      return row?.isSimulated;
    });
    expect(await paymentOf(lab, order.linkId)).toMatchObject({ state: "QUEUED", reason: null });
    expect(await linkStatus(lab, order.linkId)).toBe("PENDING");
    await lab.service.start("indexer");
    await waitForLink(lab, order.linkId, "PAID");
    expect([200, 202]).toContain((await paying).status);
    expect(await paymentOf(lab, order.linkId)).toMatchObject({ reason: null });
  },
  120_000,
);
