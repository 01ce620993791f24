/** People pay a link in a real browser: by signature, by transfer, by hand, with the keyboard alone. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { linkTag } from "../../core/domain/link-tag.ts";
import { readUsdcBalance } from "../../local/chain/usdc.ts";
import { newPayer, sendUsdc } from "../links/payers.ts";
import { findBarriers, isBrowserThere } from "./browser.ts";
import { type CheckoutWorld, startCheckoutWorld } from "./checkout-world.ts";

let world: CheckoutWorld;
beforeAll(async () => {
  if (isBrowserThere) world = await startCheckoutWorld();
}, 120_000);
afterAll(() => world?.stop());

const PAID_MS = 60_000;
const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true };

describe.if(isBrowserThere)("the payment page", () => {
  test("pays with one click and one signature, and thanks the payer", async () => {
    const { id, amountUnits } = await world.makeLink();
    const wallet = await world.wallet({ fundsUnits: amountUnits });
    const { page, expectClean, close } = await world.open(id, [wallet]);
    await page.getByRole("button", { name: "Pay with Test Wallet" }).click();
    await page.getByText(/^Thank you\./).waitFor({ timeout: PAID_MS });
    expect(await page.locator("#ways").count()).toBe(0);
    expect(await world.statusOf(id)).toBe("PAID");
    expect(await readUsdcBalance(world.rpcUrl, wallet.address)).toBe(0n);
    expect(wallet.calls.filter((method) => method === "eth_signTypedData_v4")).toHaveLength(1);
    const [payment] = await world.world
      .sql`select nonce, payer, payer_language from payments where link_id = ${id}`;
    expect(payment).toMatchObject({ payer: wallet.address, payerLanguage: "en" });
    expect(payment?.nonce.slice(0, 34)).toBe(linkTag(id));
    expect(await findBarriers(page)).toEqual([]);
    await page.reload();
    await page.getByText(/^Thank you\./).waitFor();
    expectClean();
    await close();
  });

  test("shows a paid link to everybody else without thanking them", async () => {
    const { id, amountUnits } = await world.makeLink();
    const { page, expectClean, close } = await world.open(id);
    const payer = await newPayer(world.rpcUrl, amountUnits);
    await sendUsdc(world.rpcUrl, payer, world.merchantWallet, amountUnits);
    await page.getByText("If you did not pay it, somebody else did.").waitFor({ timeout: PAID_MS });
    expect(await page.getByText(/^Thank you\./).count()).toBe(0);
    await page.locator("#ways").waitFor({ state: "detached" });
    expectClean();
    await close();
  });

  test("is paid manually with the unique amount among links of the same price", async () => {
    const first = await world.makeLink();
    const second = await world.makeLink(first.amountUnits);
    const { page, expectClean, close } = await world.open(second.id);
    await page.getByText("Pay manually").click();
    const amount = (await page.locator("[data-copy]").first().getAttribute("data-copy")) ?? "";
    const address = (await page.locator("[data-copy]").nth(1).getAttribute("data-copy")) ?? "";
    const units = BigInt(Math.round(Number(amount) * 1e6));
    expect(units).toBeGreaterThan(second.amountUnits);
    const payer = await newPayer(world.rpcUrl, units);
    await sendUsdc(world.rpcUrl, payer, address.toLowerCase() as `0x${string}`, units);
    await page.getByText("This link is paid.").waitFor({ timeout: PAID_MS });
    expect(await world.statusOf(first.id)).toBe("ACTIVE");
    expectClean();
    await close();
  });

  for (const [what, prepare, said] of [
    ["without a clipboard", "", "Copied"],
    ["whose browser refuses", "document.execCommand = () => false;", "Selected, not copied"],
  ] as const)
    test(`${what}, a copy button leaves exactly the number selected, and says "${said}"`, async () => {
      const { id } = await world.makeLink();
      const { page, expectClean, close } = await world.open(id, [], {
        prepare: async (page) => {
          // what the button says is shown for a few seconds
          await page.clock.install();
          await page.addInitScript(
            `Object.defineProperty(navigator, "clipboard", { value: undefined }); ${prepare}`,
          );
        },
      });
      await page.getByText("Pay manually").click();
      await page.clock.pauseAt(Date.now() + 60_000);
      for (const [name, form] of [
        ["Copy amount", /^\d+\.\d+$/],
        ["Copy address", /^0x[0-9a-fA-F]{40}$/],
      ] as const) {
        const button = page.getByRole("button", { name });
        const text = await button.getAttribute("data-copy");
        expect(text).toMatch(form);
        await button.click();
        expect(await button.textContent()).toBe(said);
        expect(await page.getByRole("status").last().textContent()).toBe(said);
        expect(await page.evaluate("getSelection().toString()")).toBe(text);
      }
      expectClean();
      await close();
    });

  test("names the network that a wallet which does not switch should be on", async () => {
    const { id } = await world.makeLink();
    const wallet = await world.wallet({ chainId: 1, fails: { wallet_switchEthereumChain: -32603 } });
    const { page, close } = await world.open(id, [wallet]);
    await page.getByRole("button", { name: "Pay with Test Wallet" }).click();
    await page.getByText("The wallet is still not on Base Sepolia. Nothing was sent.").waitFor();
    expect(wallet.calls).not.toContain("eth_signTypedData_v4");
    await close();
  });

  test("switches the wallet's network before it asks for anything", async () => {
    const { id } = await world.makeLink();
    const wallet = await world.wallet({ chainId: 1 });
    const { page, close } = await world.open(id, [wallet]);
    await page.getByRole("button", { name: "Pay with" }).click();
    await page.getByText(/^Thank you\./).waitFor({ timeout: PAID_MS });
    const order = wallet.calls.filter((method) => /switch|sign/.test(method));
    expect(order).toEqual(["wallet_switchEthereumChain", "eth_signTypedData_v4"]);
    await close();
  });

  test("pays with the keyboard alone: the first stop is the pay button", async () => {
    const { id } = await world.makeLink();
    const { page, close } = await world.open(id, [await world.wallet()]);
    await page.getByRole("button", { name: "Pay with" }).waitFor();
    await page.keyboard.press("Tab");
    expect(await page.evaluate("document.activeElement.textContent")).toBe("Pay with Test Wallet");
    await page.keyboard.press("Enter");
    await page.getByText(/^Thank you\./).waitFor({ timeout: PAID_MS });
    await close();
  });

  test("pays on a phone whose clock is 20 minutes slow", async () => {
    const { id } = await world.makeLink();
    const { page, close } = await world.open(id, [await world.wallet()], {
      ...PHONE,
      prepare: async (page) => {
        await page.addInitScript("{ const now = Date.now; Date.now = () => now() - 1200000; }");
      },
    });
    await page.getByRole("button", { name: "Pay with" }).click();
    await page.getByText(/^Thank you\./).waitFor({ timeout: PAID_MS });
    await close();
  });

  test("offers every wallet that announced itself, once", async () => {
    const { id } = await world.makeLink();
    const wallets = [await world.wallet({ name: "First" }), await world.wallet({ name: "Second" })];
    const { page, expectClean, close } = await world.open(id, wallets);
    await page.getByRole("button", { name: "Pay with Second" }).waitFor();
    expect(await page.getByRole("button", { name: "Pay with" }).allTextContents()).toEqual([
      "Pay with First",
      "Pay with Second",
    ]);
    expect(await findBarriers(page)).toEqual([]);
    expectClean();
    await close();
  });

  test("without a wallet opens the QR code on a desktop, and links to wallet apps on a phone", async () => {
    const { id } = await world.makeLink();
    const desk = await world.open(id);
    await desk.page.getByRole("img", { name: "QR code of this page" }).waitFor();
    expect(await findBarriers(desk.page)).toEqual([]);
    desk.expectClean();
    await desk.close();
    const phone = await world.open(id, [], PHONE);
    const link = phone.page.getByRole("link", { name: "Open in MetaMask" });
    const { host } = new URL(world.world.baseUrl);
    expect(await link.getAttribute("href")).toBe(`https://link.metamask.io/dapp/${host}/pay/${id}`);
    expect(await phone.page.locator("#phone").isVisible()).toBe(false);
    expect(await findBarriers(phone.page)).toEqual([]);
    phone.expectClean();
    await phone.close();
  });

  test("reads right to left in Arabic, in dark mode, without accessibility violations, and pays in that language", async () => {
    const { id, amountUnits } = await world.makeLink();
    const wallet = await world.wallet({ fundsUnits: amountUnits });
    const { page, expectClean, close } = await world.open(id, [wallet], {
      ...PHONE,
      query: "?lang=ar",
      colorScheme: "dark",
    });
    await page.locator("#pay button").waitFor();
    expect(await page.evaluate("getComputedStyle(document.body).direction")).toBe("rtl");
    await page.locator("#by-hand > summary").click();
    expect(await findBarriers(page)).toEqual([]);
    // the browser itself asks for English
    await page.locator("#pay button").click();
    await page.locator('a[href*="/receipt?lang=ar"]').waitFor({ timeout: PAID_MS });
    const [payment] = await world.world.sql`select payer_language from payments where link_id = ${id}`;
    expect(payment?.payerLanguage).toBe("ar");
    expectClean();
    await close();
  });

  for (const width of [320, 390, 768, 1280]) {
    test(`fits ${width} px, also with text at twice the size`, async () => {
      const { id } = await world.makeLink(999_999_999_999n - BigInt(width));
      const wallet = await world.wallet({ name: "A wallet with quite a long name" });
      const { page, close } = await world.open(id, [wallet], { viewport: { width, height: 700 } });
      await page.locator("#pay button").waitFor();
      const box = await page.locator("#pay button").boundingBox();
      expect((box?.y ?? 0) + (box?.height ?? 0)).toBeLessThan(600);
      await page.locator("#by-hand > summary").click();
      const fits = "document.documentElement.scrollWidth <= innerWidth";
      expect(await page.evaluate(fits)).toBe(true);
      await page.evaluate("document.documentElement.style.fontSize = '200%'");
      expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(width);
      await close();
    });
  }

  test("breaks names that have no space, of the merchant and of a wallet", async () => {
    const { client } = world.ann;
    await client.patch("/v1/auth/me", { displayName: "W".repeat(80) });
    const order = { amount: 3.5, description: "Tea", cancelUrl: "https://shop.example/basket" };
    const { id } = (await client.post("/v1/payment-links", order)).body;
    const wallet = await world.wallet({ name: "W".repeat(40), holdUntil: new Promise(() => {}) });
    const { page, close } = await world.open(id, [wallet], { viewport: { width: 320, height: 700 } });
    const tooWidePx = "document.documentElement.scrollWidth - innerWidth";
    await page.getByText(/^Return to/).waitFor();
    expect(await page.evaluate(tooWidePx)).toBe(0);
    await page.locator("#pay button").click();
    await page.getByText("You are signing a payment").waitFor();
    expect(await page.evaluate(tooWidePx)).toBe(0);
    await client.patch("/v1/auth/me", { displayName: "Ann's shop" });
    await close();
  });

  test("shows address, amount and QR code without JavaScript", async () => {
    const { id } = await world.makeLink();
    const context = await world.browser.newContext({ javaScriptEnabled: false });
    const page = await context.newPage();
    await page.goto(world.urlOf(id));
    expect(await page.getByText("To address").isVisible()).toBe(true);
    expect(await page.getByRole("img", { name: "QR code of this page" }).isVisible()).toBe(true);
    expect(await page.locator("[data-copy]").first().isVisible()).toBe(false);
    await context.close();
  });
});
