/** Browsers that withhold something from the page: its payer can still pay, and is never left with a wallet step that does not end. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { isBrowserThere, launchBrowser, visit } from "./browser.ts";
import { type CheckoutWorld, startCheckoutWorld } from "./checkout-world.ts";

const PAID_MS = 60_000;
/** A name of this machine that is no secure context, unlike "localhost". */
const HOST_WITHOUT_TLS = "shop.test";
/** What a browser does for a site whose cookies and data its user blocks. */
const BLOCK_SITE_DATA = `
  const refuse = () => { throw new DOMException("Access is denied for this document.", "SecurityError"); };
  Object.defineProperty(window, "localStorage", { get: refuse });
  LockManager.prototype.request = async () => refuse();`;

let world: CheckoutWorld;
beforeAll(async () => {
  if (isBrowserThere) world = await startCheckoutWorld();
}, 120_000);
afterAll(() => world?.stop());

const payWith = (page: Page) => page.getByRole("button", { name: "Pay with Test Wallet" });
const thanks = (page: Page) => page.getByText(/^Thank you\./);

describe.if(isBrowserThere)("the payment page", () => {
  test("in a browser that blocks the site's data is paid with one click", async () => {
    const { id } = await world.makeLink();
    const { page, expectClean, close } = await world.open(id, [await world.wallet()], {
      prepare: async (page) => void (await page.addInitScript(BLOCK_SITE_DATA)),
    });
    await payWith(page).click();
    await thanks(page).waitFor({ timeout: PAID_MS });
    expectClean();
    await close();
  });

  test("without TLS, where browsers have no locks and no UUIDs, is paid with one click", async () => {
    const browser = await launchBrowser([`--host-resolver-rules=MAP ${HOST_WITHOUT_TLS} 127.0.0.1`]);
    const { id } = await world.makeLink();
    const wallet = await world.wallet();
    const url = world.urlOf(id).replace("localhost", HOST_WITHOUT_TLS);
    const { page, expectClean } = await visit(browser, url, {
      prepare: wallet.install,
      allowedErrors: /Cross-Origin-Opener-Policy header has been ignored/,
    });
    expect(await page.evaluate("isSecureContext")).toBe(false);
    await payWith(page).click();
    await thanks(page).waitFor({ timeout: PAID_MS });
    expectClean();
    await browser.close();
  });
});
