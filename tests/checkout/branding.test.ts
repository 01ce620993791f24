/** A merchant's colour and logo: what may be uploaded, what comes out of it, and where it is shown. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { ICONS } from "../../api/pages/icons.ts";
import { pageColors } from "../../core/domain/page-colors.ts";
import { fetchFile } from "../exports/ask.ts";
import { pdfPageCount } from "../exports/read-files.ts";
import { waitFor } from "../links/payer-side.ts";
import { sendUsdc } from "../links/payers.ts";
import { openClient } from "../support/http-client.ts";
import { signUp } from "../support/sign-up.ts";
import { findBarriers, isBrowserThere } from "./browser.ts";
import { type CheckoutWorld, startCheckoutWorld } from "./checkout-world.ts";
import { makePng, roundLogo } from "./make-png.ts";

const PAGES = "/v1/settings/pages";
const LOGO_MAX_BYTES = 65_536;
const ICON_SIDE_PX = 56;
/** Unreadable on white. */
const YELLOW = "#ffe600";
const CUSTOMER = "carla@customer.example";

let world: CheckoutWorld;
beforeAll(async () => {
  if (isBrowserThere) world = await startCheckoutWorld();
}, 120_000);
afterAll(() => world?.stop());

const upload = (picture: Uint8Array | string) =>
  world.ann.client.post(`${PAGES}/logo`, {
    image: typeof picture === "string" ? picture : Buffer.from(picture).toString("base64"),
  });
const fetchLogo = async (url: string) => {
  const response = await fetch(url);
  return { headers: response.headers, bytes: Buffer.from(await response.arrayBuffer()) };
};

describe.if(isBrowserThere)("a logo", () => {
  test("comes out as our own PNG of at most 64 kB and 256 pixels, at an address of its content", async () => {
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
    ["of nothing is refused", Buffer.alloc(1), 400],
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

  test("is the merchant's own, who proved a passkey; a stranger and a wrong colour are refused", async () => {
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

  test("and a colour stand on page, receipt, PDF and mail, readable by day and by night", async () => {
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

test.if(isBrowserThere)("every picture of a state fills its circle", async () => {
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
