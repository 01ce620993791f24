/** Reverted transactions burn gas: each implementation of contract payers has a budget, however many addresses run it. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { findUnknownImplementations } from "../../core/chain/account-implementation.ts";
import { CONTRACTS, type Hex } from "../../core/domain/networks.ts";
import { openChain } from "../../core/rpc/chain-client.ts";
import { beginWithinDay } from "../support/begin-within-day.ts";
import {
  type Lab,
  linkStatus,
  newOrders,
  pay,
  paymentOf,
  relaysOf,
  startLab,
  waitFor,
  waitForLink,
} from "../support/relay-lab.ts";
import { randomAddress } from "../support/seed.ts";
import { contractOrder, GAS_BOMB, walletOrder, YES_SAYER } from "./contract-orders.ts";

/** Gas limit of a contract payer's relay; the bomb burns all of it. */
const CONTRACT_GAS = 200_000n;
let lab: Lab;

beforeAll(async () => {
  lab = await startLab({ env: { RELAY_REVERTED_GAS_PER_DAY: (2n * CONTRACT_GAS).toString() } });
}, 120_000);

beforeEach(beginWithinDay);
afterAll(() => lab?.stop());

/** The bomb leaves a 64th of its gas to its caller (EIP-150): receipts show what was burnt. */
async function burntGas(): Promise<bigint> {
  const reverted = (await relaysOf(lab)).filter((relay) => relay.succeeded === false);
  return reverted.reduce((sum, { gasUsed }) => sum + (gasUsed ?? 0n), 0n);
}

async function revertedBudgets() {
  return lab.sql<{ subject: string; used: bigint; reserved: bigint }[]>`
    select subject, used, reserved from relay_budgets where scope = 'REVERTED' order by subject`;
}

const messageOf = (body: object) => (body as { message?: string }).message ?? "";

describe("an implementation that burns gas", () => {
  test("behavior: an implementation that burns gas is relayed until its budget is exhausted, then RELAY_BUDGET_SPENT", async () => {
    const bomb = await contractOrder(lab, GAS_BOMB);
    const others = await newOrders(lab, 5);
    const [answer, ...rest] = await Promise.all([bomb, ...others].map((one) => pay(lab, one)));
    expect(rest.map(({ status }) => status)).toEqual(rest.map(() => 200));
    expect(answer?.status).toBeOneOf([202, 422]);
    await waitForLink(lab, bomb.linkId, "ACTIVE");
    expect(await paymentOf(lab, bomb.linkId)).toMatchObject({
      ...{ state: "FAILED", reason: "RELAY_BUDGET_SPENT", reverts: 2 },
    });
    expect((await relaysOf(lab)).filter((relay) => relay.succeeded === false)).toHaveLength(2);
    expect([...(await revertedBudgets())]).toMatchObject([{ used: await burntGas(), reserved: 0n }]);
    expect(await burntGas()).toBeGreaterThan(CONTRACT_GAS);
  }, 120_000);

  test("error: RELAY_BUDGET_SPENT for another address with an exhausted implementation, before any gas is spent", async () => {
    const before = (await relaysOf(lab)).length;
    const order = await contractOrder(lab, GAS_BOMB);
    const { status, body } = await pay(lab, order);
    expect({ status, error: body.error }).toEqual({ status: 422, error: "RELAY_BUDGET_SPENT" });
    expect(messageOf(body)).toContain(`${await burntGas()} used of 400000 gas`);
    expect(messageOf(body)).toMatch(/it resets at \d{4}-\d\d-\d\dT00:00:00\.000Z/);
    expect(await linkStatus(lab, order.linkId)).toBe("ACTIVE");
    expect((await relaysOf(lab)).length).toBe(before);
  }, 120_000);

  test("another implementation pays, and success uses none of its budget", async () => {
    expect(await pay(lab, await contractOrder(lab, YES_SAYER))).toMatchObject({ status: 200 });
    await waitFor("the receipt", async () =>
      (await revertedBudgets()).every(({ reserved }) => reserved === 0n),
    );
    expect((await revertedBudgets()).map(({ used }) => used).toSorted()).toEqual([0n, await burntGas()]);
  }, 120_000);

  test("passkey wallets are known: they pay, deployed or not, and have no budget", async () => {
    for (const isDeployed of [true, false]) {
      const order = await walletOrder(lab, { isDeployed });
      expect(await pay(lab, order)).toMatchObject({ status: 200 });
    }
    expect(await revertedBudgets()).toHaveLength(2);
  }, 120_000);
});

describe("findUnknownImplementations", () => {
  const target = randomAddress();
  const signature: Hex = "0x1234";
  const find = async (...codes: Hex[]) => {
    const chain = openChain({ network: "base-sepolia", urls: [lab.chain.rpcUrl], timeoutMs: 10_000 });
    const payers = codes.map((code) => ({ address: randomAddress(), code, signature }));
    try {
      return await findUnknownImplementations(chain, payers);
    } finally {
      chain.close();
    }
  };
  const clone = (address: Hex): Hex =>
    `0x363d3d373d3d3d363d73${address.slice(2)}5af43d82803e903d91602b57fd5bf3`;

  test("clones and delegations count as the implementation they run, whatever their address", async () => {
    expect(await find(`0xef0100${target.slice(2)}`, clone(target))).toEqual([target, target]);
    expect(await find(clone(CONTRACTS.smartWalletImplementation))).toEqual([undefined]);
  });

  test("other code is its own implementation: one extra byte makes another", async () => {
    const [one, same, other] = await find(YES_SAYER, YES_SAYER, `${YES_SAYER}00`);
    expect(one).toBe(same);
    expect(one).not.toBe(other);
  });

  test("only the known proxy's code is trusted to run the known implementation", async () => {
    const order = await walletOrder(lab, { isDeployed: true });
    const code = (await lab.rpc("eth_getCode", [order.payment.from, "latest"])) as Hex;
    const chain = openChain({ network: "base-sepolia", urls: [lab.chain.rpcUrl], timeoutMs: 10_000 });
    const ask = (shown: Hex) =>
      findUnknownImplementations(chain, [{ address: order.payment.from, code: shown, signature }]);
    expect(await ask(code)).toEqual([undefined]);
    expect((await ask(`${code}00`))[0]).toStartWith("code ");
    chain.close();
  });
});
