/** Batches that fail as a whole, and relaying without batches: no payment fails because of others in its transaction. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { CONTRACTS, type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { assertInvariants } from "../support/invariants.ts";
import {
  type Lab,
  newOrders,
  type Order,
  pay,
  payOut,
  queueAll,
  relaysOf,
  startLab,
  waitFor,
  waitForLink,
} from "../support/relay-lab.ts";

const TOGETHER = 8;
const { usdc } = NETWORKS["base-sepolia"];
/** Contract code that jumps in a circle until the gas is gone. */
const ENDLESS: Hex = "0x5b600056";
/** Contract code that reverts without a word. */
const REVERTING: Hex = "0x60006000fd";

type Carried = { linkId: string; alone: boolean; reverts: number; callTo: Hex; company: number };

/** How each of these orders' payments travelled. */
async function howTheyTravelled(lab: Lab, orders: readonly Order[]): Promise<Carried[]> {
  return lab.sql<Carried[]>`
    select
      payments.link_id, payments.alone, payments.reverts, relays.call_to,
      (select count(*)::int from payments mate where mate.relay_id = relays.id) as company
    from payments
    join relays on relays.id = payments.relay_id
    where payments.link_id = any(${orders.map(({ linkId }) => linkId)}::text[])`;
}

async function expectAllPaid(lab: Lab, orders: readonly Order[]): Promise<void> {
  for (const { linkId } of orders) await waitForLink(lab, linkId, "PAID");
  await waitFor("all relays to be mined", async () =>
    (await relaysOf(lab)).every(({ succeeded }) => succeeded !== null),
  );
  await assertInvariants(lab.sql, lab.chain);
}

describe("a batch that fails as a whole", () => {
  let lab: Lab;
  beforeAll(async () => {
    lab = await startLab({ env: { PAY_WAIT_MS: "500" } });
  }, 120_000);
  afterAll(() => lab?.stop());

  const cases: [string, Hex][] = [
    ["runs out of gas", ENDLESS],
    ["reverts", REVERTING],
  ];
  for (const [what, code] of cases) {
    test(`behavior: ${what}: its payments are relayed alone, count no revert, and each is paid once`, async () => {
      await lab.rpc("evm_setAutomine", [false]);
      const orders = await newOrders(lab, TOGETHER);
      const worker = lab.service.pidOf("worker");
      // stored together, they travel together
      process.kill(worker, "SIGSTOP");
      await queueAll(lab, orders);
      process.kill(worker, "SIGCONT");
      const before = await waitFor("all to be on their way", async () => {
        const rows = await howTheyTravelled(lab, orders);
        const isSent = (await relaysOf(lab)).every(({ state }) => state !== "SIGNED");
        return isSent && rows.length === orders.length && rows;
      });
      const inCompany = before.filter(({ company }) => company > 1).map(({ linkId }) => linkId);
      expect(inCompany.length).toBeGreaterThan(1);
      const whole = await lab.rpc("eth_getCode", [CONTRACTS.multicall3, "latest"]);
      // nothing is simulated before the chain's code is whole again
      process.kill(worker, "SIGSTOP");
      await lab.rpc("anvil_setCode", [CONTRACTS.multicall3, code]);
      await lab.rpc("evm_mine");
      await lab.rpc("anvil_setCode", [CONTRACTS.multicall3, whole]);
      await lab.rpc("evm_setAutomine", [true]);
      process.kill(worker, "SIGCONT");
      await expectAllPaid(lab, orders);
      expect((await relaysOf(lab)).some(({ succeeded }) => succeeded === false)).toBe(true);
      const after = await howTheyTravelled(lab, orders);
      for (const { linkId, ...carried } of after) {
        const wasInCompany = inCompany.includes(linkId);
        expect(carried).toEqual({ alone: wasInCompany, reverts: 0, callTo: usdc.address, company: 1 });
      }
    }, 120_000);
  }
});

describe("RELAY_BATCH_MAX=1", () => {
  let lab: Lab;
  beforeAll(async () => {
    lab = await startLab({ keys: 4, env: { RELAY_BATCH_MAX: "1" } });
  }, 120_000);
  afterAll(() => lab?.stop());

  test("behavior: with RELAY_BATCH_MAX=1 each payment has its own transaction, directly to the token", async () => {
    const orders = await newOrders(lab, 24);
    const answers = await Promise.all(orders.map((order) => pay(lab, order)));
    expect(answers.filter(({ status }) => status !== 200 && status !== 202)).toEqual([]);
    await payOut(lab, orders);
    await expectAllPaid(lab, orders);
    const carried = await howTheyTravelled(lab, orders);
    expect(new Set(carried.map(({ company, callTo }) => `${company} ${callTo}`))).toEqual(
      new Set([`1 ${usdc.address}`]),
    );
    expect(await relaysOf(lab)).toHaveLength(orders.length);
  }, 120_000);
});
