/** A payment in the block being built: the page says so, takes every way to pay away, and never calls it paid. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Browser, Page } from "playwright-core";
import { topicOfAddress } from "../../core/chain/bloom.ts";
import { TRANSFER_TOPIC } from "../../core/chain/usdc.ts";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { fieldOf } from "../../core/rpc/parse-answers.ts";
import { newPayer, sendUsdc } from "../links/payers.ts";
import { randomAddress, type SeededMerchant, seedLink, seedMerchant } from "../support/seed.ts";
import { type FaultyWorld, startFaultyWorld } from "../support/world.ts";
import { findBarriers, isBrowserThere, launchBrowser, visit } from "./browser.ts";
import { makeTestWallet } from "./test-wallet.ts";

let world: FaultyWorld;
let browser: Browser;
let merchant: SeededMerchant;
let units = 4_000_000n;
/** What the node answers for the block being built. */
let pending: object[] = [];

beforeAll(async () => {
  if (!isBrowserThere) return;
  world = await startFaultyWorld({ env: { RATE_LIMITS: "0", NODE_ENV: "test" }, hasWebSocket: true });
  world.proxy.fault = ([call]) =>
    call?.method === "eth_getLogs" && fieldOf(call.params[0], "fromBlock") === "pending"
      ? { kind: "reply", reply: () => pending }
      : undefined;
  merchant = await seedMerchant(world.sql);
  browser = await launchBrowser();
}, 120_000);
afterAll(async () => {
  await browser?.close();
  await world?.stop();
});

function transferTo(to: Hex, amountUnits: bigint): object {
  return {
    address: NETWORKS["base-sepolia"].usdc.address,
    topics: [TRANSFER_TOPIC, topicOfAddress(randomAddress()), topicOfAddress(to)],
    data: `0x${amountUnits.toString(16).padStart(64, "0")}`,
    ...{ blockNumber: "0x7fffffff", blockHash: `0x${"0".repeat(64)}`, logIndex: "0x0" },
    ...{ transactionHash: `0x${"ab".repeat(32)}`, transactionIndex: "0x0", removed: false },
  };
}

async function openLink(): Promise<Awaited<ReturnType<typeof visit>> & { id: string; amountUnits: bigint }> {
  units += 1_000n;
  const id = await seedLink(world.sql, merchant, { amountUnits: units });
  const wallet = await makeTestWallet(world.chain.rpcUrl);
  const url = `${world.baseUrl}/pay/${id}`;
  const opened = await visit(browser, url, { prepare: wallet.install });
  await payButton(opened.page).waitFor();
  return { ...opened, id, amountUnits: units };
}

const payButton = (page: Page) => page.getByRole("button", { name: "Pay with" });
const seen = (page: Page) => page.getByRole("heading", { name: "A payment has been seen" });

describe.if(isBrowserThere)("a payment that is seen before its block", () => {
  test("has a state of its own without a way to pay, and the ways return when it disappears", async () => {
    const { page, id, amountUnits, expectClean, close } = await openLink();
    pending = [transferTo(merchant.address, amountUnits)];
    await seen(page).waitFor();
    expect(await page.getByText("Please do not pay again.").isVisible()).toBe(true);
    expect(await payButton(page).count()).toBe(0);
    expect(await page.locator("#ways").isVisible()).toBe(false);
    expect(await page.getByRole("heading", { name: "Paid" }).count()).toBe(0);
    expect(await findBarriers(page)).toEqual([]);
    const [row] = await world.sql`select status from payment_links where id = ${id}`;
    expect(row).toEqual({ status: "ACTIVE" });
    pending = [];
    await payButton(page).waitFor();
    expect(await page.locator("#ways").isVisible()).toBe(true);
    expectClean();
    await close();
  }, 120_000);

  test("becomes paid when its block arrives, without thanking a viewer who did not pay", async () => {
    const { page, amountUnits, expectClean, close } = await openLink();
    pending = [transferTo(merchant.address, amountUnits)];
    await seen(page).waitFor();
    const payer = await newPayer(world.chain.rpcUrl, amountUnits);
    await sendUsdc(world.chain.rpcUrl, payer, merchant.address, amountUnits);
    await page.getByRole("heading", { name: "Paid" }).waitFor();
    expect(await seen(page).count()).toBe(0);
    expect(await page.getByText(/^Thank you\./).count()).toBe(0);
    pending = [];
    expectClean();
    await close();
  }, 120_000);

  test("of another amount is not this link's, and the ways to pay stay", async () => {
    const other = await openLink();
    const { page, amountUnits, close } = await openLink();
    pending = [
      transferTo(merchant.address, amountUnits + 7n),
      transferTo(merchant.address, other.amountUnits),
    ];
    // the other page proves that the logs were read
    await seen(other.page).waitFor();
    expect(await payButton(page).isVisible()).toBe(true);
    expect(await seen(page).count()).toBe(0);
    pending = [];
    await other.close();
    await close();
  }, 120_000);
});
