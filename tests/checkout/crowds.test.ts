/** Several people, or several tabs, and one link: nobody pays twice, and nobody gets what another one paid for. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { waitFor } from "../links/payer-side.ts";
import { newPayer, newProvingPayer, sendUsdc } from "../links/payers.ts";
import { isBrowserThere } from "./browser.ts";
import { type CheckoutWorld, startCheckoutWorld } from "./checkout-world.ts";
import { payTogether } from "./two-payers-campaign.ts";

let world: CheckoutWorld;
beforeAll(async () => {
  if (isBrowserThere) world = await startCheckoutWorld();
}, 120_000);
afterAll(() => world?.stop());

const PAID_MS = 60_000;
const paid = (page: Page) => page.getByRole("heading", { name: "Paid" });
const payButton = (page: Page) => page.getByRole("button", { name: "Pay with" });
/** As a browser does when another tab comes to the front; headless pages are always seen. */
const setHidden = (page: Page, isHidden: boolean) =>
  page.evaluate(
    `Object.defineProperty(document, "hidden", { value: ${isHidden}, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"))`,
  );

describe.if(isBrowserThere)("the payment page", () => {
  test("two payers at once: one payment a round, by the one who is thanked", async () => {
    const report = await payTogether(world, 2);
    expect(report.wonByFirst + report.wonBySecond).toBe(2);
  }, 120_000);

  test("with six other tabs open, the seventh loads and pays, and the first one sees it on return", async () => {
    const { id, amountUnits } = await world.makeLink();
    const { page: first, context, close } = await world.open(id);
    await first.getByText("Pay by hand").waitFor();
    const tabs = [first];
    for (let tab = 1; tab < 6; tab++) {
      for (const other of tabs) await setHidden(other, true);
      const next = await context.newPage();
      await next.goto(world.urlOf(id));
      tabs.push(next);
    }
    for (const other of tabs) await setHidden(other, true);
    const seventh = await context.newPage();
    const wallet = await world.wallet({ fundsUnits: amountUnits });
    await wallet.install(seventh);
    await seventh.goto(world.urlOf(id));
    await payButton(seventh).click();
    await seventh.getByText(/^Thank you\./).waitFor({ timeout: PAID_MS });
    expect(await paid(first).count()).toBe(0);
    await setHidden(first, false);
    // the same browser paid
    await first.getByText(/^Thank you\./).waitFor();
    expect(wallet.calls.filter((method) => method === "eth_signTypedData_v4")).toHaveLength(1);
    await close();
  }, 120_000);

  test("a payment by hand pays its own link although a thief claims its transaction for another one of that price", async () => {
    const honest = await world.makeLink();
    const thiefs = await world.makeLink(honest.amountUnits);
    const { page, expectClean, close } = await world.open(honest.id);
    await page.getByText("Pay by hand").click();
    const amount = (await page.locator("[data-copy]").first().getAttribute("data-copy")) ?? "";
    const units = BigInt(Math.round(Number(amount) * 1e6));
    const payer = await newPayer(world.rpcUrl, units);
    const hash = await sendUsdc(world.rpcUrl, payer, world.merchantWallet, units);
    const stolen = await world.claim(thiefs.id, hash, payer);
    expect([400, 409]).toContain(stolen.status);
    await paid(page).waitFor({ timeout: PAID_MS });
    expect(await world.statusOf(thiefs.id)).toBe("ACTIVE");
    const [row] = await world.world.sql`select settled_by from payment_links where id = ${honest.id}`;
    expect(row).toEqual({ settledBy: "pay_amount" });
    expectClean();
    await close();
  }, 90_000);

  test("a transfer of the plain amount that a thief claimed first goes to the link that its sender signs for", async () => {
    const honest = await world.makeLink();
    const thiefs = await world.makeLink(honest.amountUnits);
    const payer = await newProvingPayer(world.rpcUrl, honest.amountUnits);
    const hash = await sendUsdc(world.rpcUrl, payer.lower, world.merchantWallet, honest.amountUnits);
    await waitFor("the transfer", async () => {
      const rows = await world.world.sql`select from transfers where tx_hash = ${hash}`;
      return rows.length > 0;
    });
    const stolen = await world.claim(thiefs.id, hash, payer.lower);
    expect([stolen.status, stolen.body.proofRequired]).toEqual([200, true]);
    const { page, expectClean, close } = await world.open(honest.id);
    await page.getByText("Pay by hand").click();
    await page.getByText("Sent, but not shown here?").click();
    await page.getByLabel("Transaction hash").fill(hash);
    await page.getByLabel("Sent from address").fill(payer.lower);
    await page.getByRole("button", { name: "Find my payment" }).click();
    await page.getByText("Several links fit this transfer.").waitFor();
    expect((await world.prove(honest.id, hash, payer)).status).toBe(200);
    await paid(page).waitFor({ timeout: PAID_MS });
    expect(await world.statusOf(thiefs.id)).toBe("ACTIVE");
    expectClean();
    await close();
  }, 90_000);

  test("a link that expires while the wallet asks takes no payment, and the page says so", async () => {
    const { id, amountUnits } = await world.makeLink();
    const gate = Promise.withResolvers<void>();
    const wallet = await world.wallet({ fundsUnits: amountUnits, holdUntil: gate.promise });
    const { page, close } = await world.open(id, [wallet]);
    await payButton(page).click();
    await page.getByText("Confirm in").waitFor();
    await world.world.sql`
      update payment_links
      set created_at = now() - interval '2 days', expires_at = now()
      where id = ${id}`;
    const answered = page.waitForResponse(/\/pay$/);
    gate.resolve();
    expect((await answered).status()).toBe(422);
    await page.getByRole("heading", { name: "This link has expired" }).waitFor();
    expect(await payButton(page).count()).toBe(0);
    expect(await world.world.sql`select 1 from payments where link_id = ${id}`).toHaveLength(0);
    await close();
  }, 60_000);
});
