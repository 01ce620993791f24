/** The documentation at /docs: pages, markdown, search, the embedded checkout, and how all of it looks to a person and to a program. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { ISSUES } from "../../api/guides/error-causes.ts";
import { renderErrors } from "../../api/guides/errors-page.ts";
import { renderMarkdown } from "../../api/guides/render.ts";
import { ERROR_STATUS } from "../../core/domain/errors.ts";
import { PAYMENT_REFUSALS } from "../../core/domain/payment.ts";
import { OPERATION_FAILURES } from "../../core/domain/wallet-operation.ts";
import { findSections } from "../../web/docs/search.ts";
import { findBarriers, isBrowserThere, launchBrowser, visit } from "../checkout/browser.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { readDocument } from "../support/openapi-document.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { readSamples } from "./samples.ts";

const ROOT = join(import.meta.dir, "../..");
const PHONE = { width: 390, height: 844 };
const SCRIPT_MAX_BYTES = 4_096;
/** The pages are looked at in so many tests, each short enough for a busy machine. */
const PARTS = 4;
const REFERENCE_PAGE = "/docs/reference/exports";
/** What a page of the reference cannot break alone: all are of one make, and one of them is checked in both colours. The rules that take longest. */
const RULES_OF_MAKE = [
  ...["color-contrast", "target-size", "link-in-text-block", "aria-prohibited-attr", "aria-conditional-attr"],
  ...["scrollable-region-focusable", "aria-progressbar-name", "region"],
];

let world: ApiWorld;
let ann: Merchant;
let browser: Browser;
let pages: string[];

beforeAll(async () => {
  world = await startApiWorld();
  ann = await signUp(world.baseUrl);
  if (isBrowserThere) browser = await launchBrowser();
  const home = await (await fetch(`${world.baseUrl}/docs`)).text();
  pages = ["/docs", ...new Set([...home.matchAll(/href="(\/docs\/[^"#]+)"/g)].map(([, path = ""]) => path))];
}, 120_000);
afterAll(async () => {
  await browser?.close();
  await world?.stop();
});

const read = (path: string, headers: Record<string, string> = {}) =>
  fetch(`${world.baseUrl}${path}`, { headers });

describe("pages", () => {
  test("every guide of the repository and every tag of the API has one", async () => {
    const files = readdirSync(join(ROOT, "docs/guides")).map((file) => `/docs/${file.replace(".md", "")}`);
    expect(pages).toEqual(expect.arrayContaining([...files, "/docs/errors", "/docs/reference"]));
    const { tags } = (await readDocument()) as unknown as { tags: { name: string }[] };
    const slugs = tags.map(({ name }) => `/docs/reference/${name.toLowerCase().replaceAll(" ", "-")}`);
    expect(pages).toEqual(expect.arrayContaining(slugs));
  });

  test("every link in them leads to a page, and every anchor to a heading", async () => {
    const ids = new Map<string, Set<string>>();
    const links: { from: string; to: string }[] = [];
    for (const path of pages) {
      const answer = await read(path);
      expect([path, answer.status, answer.headers.get("content-type")]).toEqual([
        ...[path, 200, "text/html; charset=utf-8"],
      ]);
      const text = await answer.text();
      ids.set(path, new Set([...text.matchAll(/ id="([^"]+)"/g)].map(([, id = ""]) => id)));
      for (const [, to = ""] of text.matchAll(/ href="([^"]+)"/g)) links.push({ from: path, to });
    }
    const broken = links.filter(({ from, to }) => {
      const { origin, pathname, hash } = new URL(to, `${world.baseUrl}${from}`);
      if (origin !== world.baseUrl || !pathname.startsWith("/docs")) return false;
      if (pathname.endsWith(".md")) return false;
      const known = ids.get(pathname);
      return !known || (hash !== "" && !known.has(hash.slice(1)));
    });
    expect(broken).toEqual([]);
  });

  test("each is also available as markdown, without what only tests run, and with this service's URL", async () => {
    for (const path of pages.slice(1)) {
      const answer = await read(`${path}.md`);
      const text = await answer.text();
      expect([path, answer.status, answer.headers.get("content-type")]).toEqual([
        ...[path, 200, "text/markdown; charset=utf-8"],
      ]);
      expect(text).toStartWith("# ");
      expect(text).not.toContain("<!--");
      expect(text).not.toContain("pay.example.com");
    }
    expect(await (await read("/docs/quick-start.md")).text()).toContain(`BASE_URL=${world.baseUrl}`);
  });

  test("/llms.txt lists every page as markdown", async () => {
    const answer = await read("/llms.txt");
    const text = await answer.text();
    expect(answer.headers.get("content-type")).toBe("text/plain; charset=utf-8");
    const listed = [...text.matchAll(/\((http[^)]+)\)/g)].map(([, url = ""]) => url);
    expect(listed).toEqual(pages.slice(1).map((path) => `${world.baseUrl}${path}.md`));
  });

  test("an unknown page is 404, and a page for a browser", async () => {
    for (const path of ["/docs/nope", "/docs/nope.md", "/docs/reference/nope", "/docs/..%2fopenapi.json"])
      expect((await read(path)).status).toBe(404);
    const page = await read("/docs/nope", { accept: "text/html" });
    expect([page.status, page.headers.get("content-type")]).toEqual([404, "text/html; charset=utf-8"]);
  });

  test("a page is sent compressed, with a policy that allows only its own files, and 304 while unchanged", async () => {
    const page = await read("/docs/quick-start");
    expect(page.headers.get("content-encoding")).toBe("gzip");
    expect(page.headers.get("content-security-policy")).toContain("script-src 'self'; style-src 'self'");
    expect(page.headers.get("content-security-policy")).not.toContain("unsafe");
    const tag = page.headers.get("etag") ?? "";
    expect((await read("/docs/quick-start", { "if-none-match": tag })).status).toBe(304);
    expect((await read("/docs/events", { "if-none-match": tag })).status).toBe(200);
  });
});

test("markdown cannot inject HTML into a page", () => {
  const { html, title } = renderMarkdown(
    "# A <b>\n\nText <img src=x onerror=alert(1)>\n\n<script>alert(1)</script>\n",
  );
  expect(html).not.toMatch(/<(img|script|b)\b/);
  expect(title).toBe("A <b>");
});

describe("errors", () => {
  const text = renderErrors();

  test("every error code of the API, of payments and of sends has a cause and a remedy", () => {
    const codes = [...Object.keys(ERROR_STATUS), ...Object.keys(PAYMENT_REFUSALS), ...OPERATION_FAILURES];
    const without = [...codes, "SETTLEMENT_PENDING"].filter(
      (code) =>
        !new RegExp(`^\\| \`${code}\`[^|]*\\|( [\\d, ]+ \\|)? [^|]{8,}\\| [^|]{6,}\\|$`, "m").test(text),
    );
    expect(without).toEqual([]);
  });

  test("every issue named in the sources is explained, and no other", () => {
    const sources = ["api/**/*.ts", "core/domain/*.ts"]
      .flatMap((pattern) => [...new Bun.Glob(pattern).scanSync(ROOT)])
      .filter((file) => !file.endsWith("error-causes.ts"))
      .map((file) => readFileSync(join(ROOT, file), "utf8"))
      .join("\n");
    const named = /issue:\s*(?:\w+ \? )?"([a-z_]+)"(?: : "([a-z_]+)")?/g;
    const given = /(?:invalid|refused|conflictOf)\(\s*(?:[^,()]+,\s*)?"([a-z]+(?:_[a-z]+)+)"/g;
    const found = [...sources.matchAll(named), ...sources.matchAll(given)]
      .flatMap(([, one, other]) => [one, other])
      .filter((issue) => issue !== undefined);
    expect(new Set(found).size).toBeGreaterThan(50);
    const explained = Object.keys(ISSUES);
    expect(found.filter((issue) => !explained.includes(issue))).toEqual([]);
    const isNamed = (issue: string) => sources.includes(`"${issue}"`) || sources.includes(`${issue}:`);
    expect(explained.filter((issue) => !isNamed(issue))).toEqual([]);
  });
});

describe("search", () => {
  const entry = (title: string, text: string) => ({ path: "/docs/a", page: "Guide", title, text });

  test("finds sections that contain every word, those with the word in the title first", () => {
    const entries = [
      entry("Receive", "a signature of the secret"),
      entry("Signature", "of a message"),
      entry("Other", "x"),
    ];
    expect(findSections(entries, "Signature").map(({ title }) => title)).toEqual(["Signature", "Receive"]);
    expect(findSections(entries, "signature secret").map(({ title }) => title)).toEqual(["Receive"]);
    expect(findSections(entries, "signature nowhere")).toEqual([]);
    expect(findSections(entries, "  ")).toEqual([]);
  });

  test("the script is at most 4 kB", async () => {
    const [, path = ""] = /src="(\/assets\/docs-[^"]+)"/.exec(await (await read("/docs")).text()) ?? [];
    expect((await (await read(path)).arrayBuffer()).byteLength).toBeLessThanOrEqual(SCRIPT_MAX_BYTES);
  });

  test.if(isBrowserThere)(
    "a word typed in the box leads to its section, with the keyboard alone",
    async () => {
      const { page, expectClean, close } = await visit(browser, `${world.baseUrl}/docs`);
      await page.keyboard.press("/");
      await page.keyboard.type("rotate secret");
      await page.locator(".results a").first().waitFor();
      expect(await findBarriers(page)).toEqual([]);
      await page.keyboard.press("Enter");
      await page.waitForURL(/\/docs\/.+#/);
      expectClean();
      await close();
    },
  );
});

describe.if(isBrowserThere)("in a browser", () => {
  for (const [part, colorScheme] of (["light", "dark", "light", "dark"] as const).entries())
    test(`axe finds no violation on a phone, and nothing scrolls sideways: pages ${part + 1} of ${PARTS}, ${colorScheme}`, async () => {
      const { page, expectClean, close } = await visit(browser, `${world.baseUrl}/docs`, {
        ...{ colorScheme, viewport: PHONE },
      });
      const chosen = pages.filter((_, index) => index % PARTS === part);
      for (const path of new Set([...chosen, ...(part < 2 ? [REFERENCE_PAGE] : [])])) {
        await page.goto(`${world.baseUrl}${path}`);
        const isAlike = path.startsWith("/docs/reference/") && (path !== REFERENCE_PAGE || part >= 2);
        const barriers = await findBarriers(page, isAlike ? RULES_OF_MAKE : []);
        const width = await page.evaluate<number>("document.documentElement.scrollWidth");
        expect([path, barriers, width]).toEqual([path, [], PHONE.width]);
      }
      expectClean();
      await close();
    }, 240_000);

  test("a text with too little contrast is found among hundreds that are styled alike", async () => {
    const page = await browser.newPage();
    const many = "<code><span>const</span> <i>a</i> <b>,</b></code> ".repeat(200);
    const pale = [
      '<p><span id="own" style="color: #aaa">too pale</span></p>',
      '<p style="background: #555"><span id="around">on grey</span></p>',
      '<p style="opacity: 0.4"><span id="through">see-through</span></p>',
      '<label>Name <input id="field" value="typed" style="color: #bbb"></label>',
      '<p><b style="color: #ccc">;</b> <b id="second" style="color: #ccc">after a symbol</b></p>',
    ];
    const unseen = '<button disabled style="color: #bbb">disabled</button>';
    await page.setContent(`<!doctype html><title>Texts</title><main>${many}${pale.join("")}${unseen}</main>`);
    const found = (await findBarriers(page)).filter((text) => text.startsWith("color-contrast"));
    const ids = found.map((text) => / id="(\w+)"/.exec(text)?.[1]).sort();
    expect(ids).toEqual(["around", "field", "own", "second", "through"]);
    await page.close();
  });

  test("a sample is copied as displayed", async () => {
    const { page, context, close } = await visit(browser, `${world.baseUrl}/docs/quick-start`);
    await context.grantPermissions(["clipboard-read", "clipboard-write"]);
    await page.locator("figure.code").first().getByRole("button", { name: "Copy" }).click();
    await page.getByRole("button", { name: "Copied" }).waitFor();
    expect(await page.evaluate<string>("navigator.clipboard.readText()")).toStartWith("export BASE_URL=http");
    await close();
  });

  test("the sample of the embedded checkout shows the link on the shop's page", async () => {
    const guide = readFileSync(join(ROOT, "docs/guides/checkout.md"), "utf8");
    const sample = readSamples(guide).find(({ language }) => language === "html")?.code ?? "";
    const { body: link } = await ann.client.post("/v1/payment-links", {
      amount: 3,
      description: "Embedded mug",
    });
    const html = sample
      .replaceAll("https://pay.example.com", world.baseUrl)
      .replaceAll("link_your_link", link.id);
    const shop = Bun.serve({
      port: 0,
      fetch: () => new Response(`<!doctype html>${html}`, { headers: { "content-type": "text/html" } }),
    });
    const origin = `http://localhost:${shop.port}`;
    await ann.client.patch("/v1/settings/pages", { frameOrigins: [origin] });
    const { page, close } = await visit(browser, origin);
    await page.frameLocator("iframe").getByText("Embedded mug").first().waitFor();
    await close();
    await shop.stop(true);
  }, 120_000);
});
