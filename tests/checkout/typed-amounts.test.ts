/** An amount that a payer types or pastes into the page of a reusable link: one number, or an explanation by the page itself. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { isBrowserThere } from "./browser.ts";
import { type CheckoutWorld, startCheckoutWorld } from "./checkout-world.ts";

const REFUSED = /400 \(Bad Request\)/;

let world: CheckoutWorld;
let id: string;
beforeAll(async () => {
  if (!isBrowserThere) return;
  world = await startCheckoutWorld();
  const fields = { amount: null, minAmount: 1, maxAmount: 5_000, maxPayments: null };
  const made = await world.ann.client.post("/v1/payment-links", { ...fields, description: "Donation" });
  id = made.body.id;
}, 120_000);
afterAll(() => world?.stop());

async function type(amount: string, language: string) {
  const { page, close, expectClean } = await world.open(id, [], {
    query: `?lang=${language}`,
    allowedErrors: REFUSED,
  });
  await page.locator("input[name=amount]").fill(amount);
  await Promise.all([page.waitForNavigation(), page.locator("#pay button").click()]);
  expectClean();
  return { page, close };
}

describe.if(isBrowserThere)("an amount typed by a payer", () => {
  for (const [typed, language, shown] of [
    [" 12.50 ", "en", "12.50 USDC"],
    ["12,5", "de", "12,50 USDC"],
    ["١٢٫٥", "ar", "12.50 USDC"],
    ["۱۲", "ar", "12.00 USDC"],
    ["१२.५", "hi", "12.50 USDC"],
  ] as const)
    test(`as “${typed}” opens a payment of ${shown}`, async () => {
      const { page, close } = await type(typed, language);
      expect(page.url()).not.toContain(id);
      expect((await page.locator("h1").innerText()).replaceAll(/\s+/g, " ")).toBe(shown);
      await close();
    });

  for (const [typed, language, said] of [
    ["1,000.50", "en", "Write a thousand as 1000.00"],
    ["1.000,50", "de", "Schreiben Sie tausend als 1000,00"],
    ["1.000", "de", "Schreiben Sie tausend als 1000,00"],
    ["١٬٠٠٠", "ar", "1000.00"],
    ["12.50 USDC", "en", "Write a thousand as 1000.00"],
    ["12.123456", "en", "Write a thousand as 1000.00"],
  ] as const)
    test(`as “${typed}” is refused with how to write it`, async () => {
      const { page, close } = await type(typed, language);
      expect(page.url()).toContain(id);
      expect(await page.getByRole("alert").innerText()).toContain(said);
      await close();
    });

  test("that is too high is refused with the range alone", async () => {
    const { page, close } = await type("5000.01", "en");
    expect(await page.getByRole("alert").innerText()).toBe(
      "Choose an amount from 1.00 to 5,000.00\u00a0USDC.",
    );
    await close();
  });
});
