/** What a merchant sets for the own payment pages: who may show them in a frame or a popup, a colour and a logo. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { ICONS } from "../../api/pages/icons.ts";
import { pageColors } from "../../core/domain/page-colors.ts";
import { fetchFile } from "../exports/ask.ts";
import { pdfPageCount } from "../exports/read-files.ts";
import { waitFor } from "../links/payer-side.ts";
import { newPayer, sendUsdc } from "../links/payers.ts";
import { openClient } from "../support/http-client.ts";
import { signUp } from "../support/sign-up.ts";
import { findBarriers, isBrowserThere, visit } from "./browser.ts";
import { type CheckoutWorld, startCheckoutWorld } from "./checkout-world.ts";
import { makePng, roundLogo } from "./make-png.ts";

const PAID_MS = 60_000;
const PAGES = "/v1/settings/pages";
const LOGO_MAX_BYTES = 65_536;
const ICON_SIDE_PX = 56;
/** Unreadable on white. */
const YELLOW = "#ffe600";
const CUSTOMER = "carla@customer.example";

let world: CheckoutWorld;
let shop: ReturnType<typeof Bun.serve>;
let origin: string;
beforeAll(async () => {
  if (!isBrowserThere) return;
  world = await startCheckoutWorld();
  shop = Bun.serve({ port: 0, fetch: servePage });
  origin = `http://localhost:${shop.port}`;
}, 120_000);
afterAll(async () => {
  await shop?.stop(true);
  await world?.stop();
});

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

/** Only listed origins may, and messages pass only between the shop and the page. */
describe.if(isBrowserThere)("embedding", () => {
  beforeAll(() => list([origin]));

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

  test("a payment in the frame is reported to the shop, and the frame is as tall as its page", async () => {
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

  test("a page in the frame stays there in another language, and opens its receipt outside", async () => {
    const { id, amountUnits } = await world.makeLink();
    const open = await world.ann.client.post("/v1/payment-links", {
      ...{ amount: null, minAmount: 1, maxAmount: 9, maxPayments: null, description: "A donation" },
    });
    for (const linkId of [id, open.body.id]) {
      const { page, close } = await openShop(linkId, "frame");
      const frame = page.frameLocator("iframe");
      await frame.locator(".languages summary").click();
      await frame.getByRole("link", { name: "Deutsch" }).click();
      await frame.locator("html[lang=de] main").waitFor();
      await close();
    }
    const payer = await newPayer(world.rpcUrl, amountUnits);
    await sendUsdc(world.rpcUrl, payer, world.merchantWallet, amountUnits);
    await world.waitForStatus(id, "PAID");
    const paid = await openShop(id, "frame");
    const receipt = paid.page.waitForEvent("popup");
    await paid.page.frameLocator("iframe").getByRole("link", { name: "Receipt" }).click();
    await (await receipt).getByRole("heading", { name: "Receipt" }).waitFor();
    await paid.close();
  }, 120_000);

  test("a payment in the popup is reported to the shop that opened it", async () => {
    const { id, amountUnits } = await world.makeLink();
    const { page, context, close } = await openShop(id, "popup");
    const opened = context.waitForEvent("page");
    await page.getByRole("button", { name: "Pay with USDC" }).click();
    await (await opened).getByText("Pay manually").waitFor();
    await page.waitForFunction(`heard.includes("payment-status ACTIVE ${id}")`);
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

const upload = (picture: Uint8Array | string) =>
  world.ann.client.post(`${PAGES}/logo`, {
    image: typeof picture === "string" ? picture : Buffer.from(picture).toString("base64"),
  });
const fetchLogo = async (url: string) => {
  const response = await fetch(url);
  return { headers: response.headers, bytes: Buffer.from(await response.arrayBuffer()) };
};

describe.if(isBrowserThere)("a logo", () => {
  test("is re-encoded as a PNG of at most 64 kB and 256 pixels, at an address derived from its content", async () => {
    const noise = makePng({
      ...{ width: 300, height: 200 },
      pixel: (x, y) => [(x * 7919 + y * 104729) % 256, (x * y * 31) % 256, (x ^ (y * 57)) % 256, 255],
    });
    const { status, body } = await upload(noise);
    expect(status).toBe(200);
    expect(body.logoUrl).toMatch(/\/looks\/[0-9a-f]{32}\.png$/);
    const { headers, bytes } = await fetchLogo(body.logoUrl);
    expect(headers.get("content-type")).toBe("image/png");
    expect(headers.get("x-content-type-options")).toBe("nosniff");
    expect(headers.get("content-security-policy")).toBe(
      "default-src 'none'; sandbox; frame-ancestors 'none'",
    );
    expect(headers.get("cache-control")).toContain("immutable");
    expect(bytes.length).toBeLessThanOrEqual(LOGO_MAX_BYTES);
    const { width, height, format } = await new Bun.Image(bytes).metadata();
    expect([width <= 256, Math.abs(height / width - 2 / 3) < 0.01, format]).toEqual([true, true, "png"]);
    expect(bytes.includes("hidden")).toBe(false);
    const asDataUrl = await upload(`data:image/png;base64,${noise.toString("base64")}`);
    expect(asDataUrl.body.logoUrl).toBe(body.logoUrl);
    // another picture is another address, and the old one is gone
    const next = await upload(roundLogo());
    expect(next.body.logoUrl).not.toBe(body.logoUrl);
    expect((await fetch(body.logoUrl)).status).toBe(404);
    for (const path of ["/looks/x.png", "/looks/0b50e6.png", "/looks/0b50e.css", "/looks/%2e%2e.css"])
      expect((await fetch(world.world.baseUrl + path)).status).toBe(404);
  });

  const four = { width: 2_048, height: 2_048 };
  test.each([
    ["of four megapixels is taken", makePng(four), 200],
    ["of one row more is refused", makePng({ ...four, height: 2_049 }), 400],
    [
      "that claims 3.6 gigapixels in a hundred bytes is refused",
      makePng({ width: 1, height: 1, claims: { width: 60_000, height: 60_000 } }),
      400,
    ],
    ["cut off is refused", roundLogo().subarray(0, 300), 400],
    [
      "in SVG is refused",
      Buffer.from(`<svg xmlns="http://www.w3.org/2000/svg"><script>1</script></svg>`),
      400,
    ],
    [
      "in GIF is refused",
      Buffer.from("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7", "base64"),
      400,
    ],
    ["that is empty is refused", Buffer.alloc(1), 400],
    [
      "of 512 kB and a byte is refused",
      Buffer.concat([roundLogo(), Buffer.alloc(524_289 - roundLogo().length)]),
      400,
    ],
  ])("a picture %s", async (_what, picture, status) => {
    const answer = await upload(picture);
    expect(answer.status).toBe(status);
    if (status === 400) expect(answer.body.error.details.field).toBe("image");
  });

  test("can be set only by the merchant with a fresh passkey; a stranger and a wrong colour are refused", async () => {
    const stranger = openClient(world.world.baseUrl);
    const image = roundLogo().toString("base64");
    expect((await stranger.post(`${PAGES}/logo`, { image })).status).toBe(401);
    expect((await stranger.delete(`${PAGES}/logo`)).status).toBe(401);
    for (const accentColor of ["red", "#fff", "#12345g", "#0b50e6;}", 1])
      expect((await world.ann.client.patch(PAGES, { accentColor })).status).toBe(400);
    const bob = await signUp(world.world.baseUrl);
    await upload(roundLogo());
    expect((await bob.client.get(PAGES)).body).toEqual({
      frameOrigins: [],
      accentColor: null,
      logoUrl: null,
    });
    const stale = await signUp(world.world.baseUrl);
    await world.world.sql`
      update sessions
      set passkey_at = now() - interval '16 minutes'
      where user_id = ${stale.userId}`;
    const refused = await stale.client.post(`${PAGES}/logo`, { image });
    expect([refused.status, refused.body.error.details.issue]).toEqual([403, "passkey_required"]);
  });

  test("and a colour appear on page, receipt, PDF and mail, readable in light and dark mode", async () => {
    expect((await world.ann.client.patch(PAGES, { accentColor: YELLOW.toUpperCase() })).body).toMatchObject({
      accentColor: YELLOW,
    });
    const { body } = await upload(roundLogo());
    const path = new URL(body.logoUrl).pathname;
    const made = await world.ann.client.post("/v1/payment-links", {
      ...{ amount: 12.5, description: "Two coffees", customerEmail: CUSTOMER },
    });
    const { id } = made.body;
    for (const colorScheme of ["light", "dark"] as const) {
      const { page, expectClean, close } = await world.open(id, [await world.wallet()], { colorScheme });
      await page.getByRole("button", { name: "Pay with" }).waitFor();
      expect(await page.locator(".merchant img").getAttribute("src")).toBe(path);
      expect(await page.evaluate("document.querySelector('.merchant img').naturalWidth")).toBe(200);
      const accent = await page.evaluate("getComputedStyle(document.body).getPropertyValue('--accent')");
      expect(accent).toBe(pageColors(YELLOW, colorScheme).accent);
      expect(await findBarriers(page)).toEqual([]);
      expectClean();
      await close();
    }
    await sendUsdc(world.rpcUrl, world.payer, world.merchantWallet, 12_500_000n);
    await world.waitForStatus(id, "PAID");
    const stranger = openClient(world.world.baseUrl);
    const receipt = await fetchFile(stranger, `/pay/${id}/receipt`);
    expect(receipt.text).toContain(`src="${path}"`);
    expect(receipt.text).toContain(`href="/looks/ffe600.css"`);
    const pdf = await fetchFile(stranger, `/api/v1/public/payment-links/${id}/receipt?format=pdf`);
    expect(pdfPageCount(pdf.bytes)).toBe(1);
    expect(Buffer.from(pdf.bytes).includes("/Subtype /Image")).toBe(true);
    const mail = await waitFor("the mail", async () => world.world.mailbox.messages(CUSTOMER)[0]);
    expect(mail.html).toMatch(/<img src="cid:logo\.[^"]+"/);
    expect(mail.html).not.toMatch(/<img src="http/);
    expect((await world.ann.client.delete(`${PAGES}/logo`)).body).toMatchObject({ logoUrl: null });
    expect((await fetchFile(stranger, `/pay/${id}/receipt`)).text).not.toContain("<img");
    expect((await fetch(body.logoUrl)).status).toBe(404);
  }, 120_000);
});

test.if(isBrowserThere)("every icon of a state fills its circle", async () => {
  const { page, close } = await world.open("link_AAAAAAAAAAAAAAAAAAAAAA", [], { allowedErrors: /404/ });
  const names = Object.keys(ICONS);
  const sizes: unknown = await page.evaluate(`(() => {
    const shown = document.querySelector("svg.icon");
    return ${JSON.stringify(names)}.map((name) => {
      // a new element: one that changes its class has a transition from what it was
      const icon = shown.cloneNode(true);
      icon.setAttribute("class", "icon " + name);
      shown.parentNode.append(icon);
      const { width, height } = icon.querySelector("circle").getBoundingClientRect();
      return [name, width, height];
    });
  })()`);
  expect(sizes).toEqual(names.map((name) => [name, ICON_SIDE_PX, ICON_SIDE_PX]));
  await close();
});
