/** A shop shows the payment page in a frame or a popup: only listed origins may, and messages pass only between the two of them. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { isBrowserThere, visit } from "./browser.ts";
import { type CheckoutWorld, startCheckoutWorld } from "./checkout-world.ts";

let world: CheckoutWorld;
let shop: ReturnType<typeof Bun.serve>;
let origin: string;
beforeAll(async () => {
  if (!isBrowserThere) return;
  world = await startCheckoutWorld();
  shop = Bun.serve({ port: 0, fetch: servePage });
  origin = `http://localhost:${shop.port}`;
  await list([origin]);
}, 120_000);
afterAll(async () => {
  await shop?.stop(true);
  await world?.stop();
});

const PAID_MS = 60_000;

/** A shop's page with the element as its address says, and a log of the events it fires. */
function servePage(request: Request): Response {
  const { searchParams } = new URL(request.url);
  const page = `<!doctype html><title>Shop</title>
<script src="${world.world.baseUrl}/embed.js"></script>
<usdc-payment link="${searchParams.get("link")}" mode="${searchParams.get("mode")}"></usdc-payment>
<script>
window.heard = [];
for (const type of ["payment-status", "payment-paid"])
  addEventListener(type, (event) => heard.push(type + " " + event.detail.status + " " + event.detail.linkId));
</script>`;
  return new Response(page, { headers: { "content-type": "text/html" } });
}

const list = async (frameOrigins: string[]) => {
  const { status, body } = await world.ann.client.patch("/v1/settings/pages", { frameOrigins });
  expect([status, body.frameOrigins]).toEqual([200, frameOrigins]);
};
const openShop = (link: string, mode: "frame" | "popup", options = {}) =>
  visit(world.browser, `${origin}/?link=${link}&mode=${mode}`, options);
const headersOf = async (linkId: string, embed?: string) =>
  (await fetch(world.urlOf(linkId, embed === undefined ? "" : `?embed=${encodeURIComponent(embed)}`)))
    .headers;

describe.if(isBrowserThere)("embedding", () => {
  test("a page may be framed by exactly the listed origin that it is opened for", async () => {
    const { id } = await world.makeLink();
    const framed = await headersOf(id, origin);
    expect(framed.get("content-security-policy")).toContain(`frame-ancestors ${origin};`);
    expect(framed.get("cross-origin-opener-policy")).toBe("unsafe-none");
    expect(framed.get("x-frame-options")).toBeNull();
    for (const other of [
      undefined,
      "https://evil.example",
      `${origin}/`,
      `${origin}.evil.example`,
      "*",
      "",
    ]) {
      const headers = await headersOf(id, other);
      expect(headers.get("content-security-policy")).toContain("frame-ancestors 'none';");
      expect(headers.get("x-frame-options")).toBe("DENY");
      expect(headers.get("cross-origin-opener-policy")).toBe("same-origin-allow-popups");
    }
    const { status, headers } = await fetch(`${world.world.baseUrl}/embed.js`);
    expect([status, headers.get("cross-origin-resource-policy")]).toEqual([200, "cross-origin"]);
  });

  test.each([
    ["https://shop.example", "http://shop.example"],
    ["https://shop.example:8443", "https://shop.example/"],
    ["http://localhost:3001", "https://shop.example/path"],
    ["https://a.example", "https://*.example"],
    ["https://b.example", "https://b.example; script-src *"],
    ["https://c.example", "null"],
  ])("the list takes %s and refuses %s", async (good, bad) => {
    await list([good]);
    expect((await world.ann.client.patch("/v1/settings/pages", { frameOrigins: [bad] })).status).toBe(400);
    expect((await world.ann.client.get("/v1/settings/pages")).body.frameOrigins).toEqual([good]);
    const twenty = Array.from({ length: 20 }, (_, n) => `https://s${n}.example`);
    await list(twenty);
    const more = { frameOrigins: [...twenty, "https://more.example"] };
    expect((await world.ann.client.patch("/v1/settings/pages", more)).status).toBe(400);
    await list([origin]);
  });

  test("a payment in the frame is reported to the shop, and the frame is as high as its page", async () => {
    const { id, amountUnits } = await world.makeLink();
    const wallet = await world.wallet({ fundsUnits: amountUnits });
    const { page, close } = await openShop(id, "frame", { prepare: wallet.install });
    const frame = page.frameLocator("iframe");
    await frame.getByRole("button", { name: "Pay with Test Wallet" }).click();
    await frame.getByText(/^Thank you\./).waitFor({ timeout: PAID_MS });
    await page.waitForFunction(`heard.includes("payment-paid PAID ${id}")`);
    const heard = await page.evaluate<string[]>("heard");
    expect(heard[0]).toBe(`payment-status ACTIVE ${id}`);
    expect(heard.filter((text) => text.startsWith("payment-paid"))).toEqual([`payment-paid PAID ${id}`]);
    const heights = `[...document.querySelectorAll("iframe")].map((frame) => frame.style.height)`;
    expect(await page.evaluate<string[]>(heights)).not.toEqual(["640px"]);
    await close();
  }, 120_000);

  test("a payment in the popup is reported to the shop that opened it", async () => {
    const { id, amountUnits } = await world.makeLink();
    const { page, context, close } = await openShop(id, "popup");
    const opened = context.waitForEvent("page");
    await page.getByRole("button", { name: "Pay with USDC" }).click();
    await (await opened).getByText("Pay by hand").waitFor();
    await page.waitForFunction(`heard.includes("payment-status ACTIVE ${id}")`);
    const { newPayer, sendUsdc } = await import("../links/payers.ts");
    const payer = await newPayer(world.rpcUrl, amountUnits);
    await sendUsdc(world.rpcUrl, payer, world.merchantWallet, amountUnits);
    await page.waitForFunction(`heard.includes("payment-paid PAID ${id}")`, undefined, { timeout: PAID_MS });
    await close();
  }, 120_000);

  test("the element ignores messages of other windows, and a shop that is not listed sees nothing", async () => {
    const { id } = await world.makeLink();
    const { page, close } = await openShop(id, "frame");
    await page.waitForFunction(`heard.length === 1`);
    const forged = { type: "usdc-payment", linkId: id, status: "PAID" };
    await page.evaluate(`postMessage(${JSON.stringify(forged)}, "*")`);
    await page.evaluate(`dispatchEvent(new MessageEvent("message", {
      data: ${JSON.stringify(forged)}, origin: "https://evil.example",
      source: document.querySelector("iframe").contentWindow,
    }))`);
    // a message that is heard proves that the two before it were looked at
    await page.evaluate(`dispatchEvent(new MessageEvent("message", {
      data: { type: "usdc-payment", linkId: "${id}", status: "PENDING" }, origin: "${world.world.baseUrl}",
      source: document.querySelector("iframe").contentWindow,
    }))`);
    await page.waitForFunction(`heard.length === 2`);
    expect(await page.evaluate<string[]>("heard")).toEqual([
      `payment-status ACTIVE ${id}`,
      `payment-status PENDING ${id}`,
    ]);
    await close();
    await list([]);
    const refused = await openShop(id, "frame");
    const shown = await Promise.all(
      refused.page.frames().map((frame) =>
        frame
          .locator("main.card")
          .count()
          .catch(() => 0),
      ),
    );
    expect(shown.reduce((sum, count) => sum + count, 0)).toBe(0);
    expect(await refused.page.evaluate<string[]>("heard")).toEqual([]);
    await refused.close();
    await list([origin]);
  }, 120_000);
});
