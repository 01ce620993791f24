/** Chromium for the payment page, and what a test of it always asks: no error in the console, no request to another origin, no barrier. */

import { expect } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Page,
} from "playwright-core";

/** The shell without a window takes a third of the CPU; without it, the whole browser does the same. */
const PROGRAMS = ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium"];
const program = PROGRAMS.find((path) => existsSync(path));
/** The last list of a command line counts, so Playwright's own is in it. */
const DISABLED_FEATURES = [
  // every page of ours is in a context of its own, which never takes the process that waits for the next site
  "SpareRendererForSitePerProcess",
  ...["AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades"],
  ...["HttpsFirstBalancedModeAutoEnable", "LensOverlay", "MediaRouter", "PaintHolding"],
  ...["ThirdPartyStoragePartitioning", "AvoidCorsURLLoaderRestartOnRedirect", "OptimizationHints"],
  ...["NetworkTimeServiceQuerying", "AimEnabled", "PreconnectToSearch"],
];
const ARGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  // a page lives for seconds: code compiled for speed pays too late, as in the service's own processes
  "--js-flags=--no-opt --no-maglev",
  `--disable-features=${DISABLED_FEATURES.join(",")}`,
];
const PAGE_TIMEOUT_MS = 90_000;
/** Half the text of the package's main file: every page reads it anew. */
const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

export const isBrowserThere = program !== undefined;
if (!isBrowserThere)
  console.log(
    `browser tests skipped: there is no ${PROGRAMS.join(" or ")} (Debian: apt-get install chromium-headless-shell)`,
  );

export const launchBrowser = (args: readonly string[] = []): Promise<Browser> =>
  chromium.launch({ executablePath: program ?? "", args: [...ARGS, ...args] });

export type Visit = {
  page: Page;
  context: BrowserContext;
  /** Fails when the console showed an error, or anything was asked of another origin. */
  expectClean: () => void;
  close: () => Promise<void>;
};

/** A reader of their own: no cookies, no storage, no wallet. `prepare` runs before the page is opened. */
export async function visit(
  browser: Browser,
  url: string,
  options: BrowserContextOptions & {
    prepare?: (page: Page) => Promise<void>;
    allowedErrors?: RegExp;
    /** Where the person goes on the way; its pages may be opened, and nothing may be asked of it from ours. */
    alsoVisits?: string;
  } = {},
): Promise<Visit> {
  const { prepare, allowedErrors, alsoVisits, ...contextOptions } = options;
  // an animation keeps a core busy that draws without a graphics card
  const still = { reducedMotion: "reduce" } as const;
  const context = await browser.newContext({
    locale: "en-US",
    timezoneId: "UTC",
    ...still,
    ...contextOptions,
  });
  // of further tabs and popups, too
  context.setDefaultTimeout(PAGE_TIMEOUT_MS);
  const page = await context.newPage();
  const problems: string[] = [];
  const foreign: string[] = [];
  const { origin } = new URL(url);
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("request", (request) => {
    const asked = request.url();
    const isOnTheWay = request.isNavigationRequest() && asked.startsWith(`${alsoVisits}/`);
    if (!asked.startsWith(`${origin}/`) && !asked.startsWith("data:") && !isOnTheWay) foreign.push(asked);
  });
  await prepare?.(page);
  await page.goto(url, { waitUntil: "load" });
  const expectClean = () => {
    expect(problems.filter((text) => !allowedErrors?.test(text))).toEqual([]);
    expect(foreign).toEqual([]);
  };
  return { page, context, expectClean, close: () => context.close() };
}

/** Holds the page's CSS animations, delays included, before it is opened. The result lets them pass at once. */
export async function holdAnimations(page: Page): Promise<() => Promise<void>> {
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("Animation.enable");
  await cdp.send("Animation.setPlaybackRate", { playbackRate: 0 });
  return async () => void (await cdp.send("Animation.setPlaybackRate", { playbackRate: 1_000 }));
}

/**
 * Marks a few elements with text of each look, and has axe judge the contrast of those alone: a page of code has thousands that differ in
 * nothing the contrast depends on, and each costs milliseconds. A look is what an element and all around it are drawn with. Every control
 * and every label is judged, since axe leaves out those that are disabled.
 */
const MARK_LOOKS = `{
  const DRAWN = [
    ...["color", "backgroundColor", "backgroundImage", "backgroundClip", "opacity", "filter", "mixBlendMode"],
    ...["fontSize", "fontWeight", "textShadow", "textIndent", "webkitTextStrokeWidth", "display", "visibility"],
    ...["position", "zIndex", "overflow", "clip", "clipPath"],
  ];
  const JUDGED_EACH = 3;
  const ids = new Map();
  const looks = new Map([[null, 0]]);
  const lookOf = (element) => {
    if (looks.has(element)) return looks.get(element);
    const style = getComputedStyle(element);
    const text = [lookOf(element.parentElement), ...DRAWN.map((property) => style[property])].join(";");
    if (!ids.has(text)) ids.set(text, ids.size + 1);
    looks.set(element, ids.get(text));
    return ids.get(text);
  };
  const judged = new Map();
  const isJudged = (element) => {
    if (element.closest("input, select, textarea, button, label, [aria-disabled]")) return true;
    const own = [...element.childNodes].filter(({ nodeType }) => nodeType === Node.TEXT_NODE);
    const text = own.map(({ data }) => data.trim()).join("");
    if (text === "" || element.getClientRects().length === 0) return false;
    // a symbol or a single character may be no text to axe
    const look = lookOf(element) + (/[\\p{L}\\p{N}]{2}/u.test(text) ? "text" : "symbol");
    judged.set(look, (judged.get(look) ?? 0) + 1);
    return judged.get(look) <= JUDGED_EACH;
  };
  for (const element of document.body.querySelectorAll("*")) element.toggleAttribute("data-judged", isJudged(element));
  axe.configure({ rules: [{ id: "color-contrast", selector: "[data-judged]" }] });
}`;

/** What axe finds at WCAG 2.2 AA and its best practices, as short texts. `without` names rules that another page's check covers. */
export async function findBarriers(page: Page, without: readonly string[] = []): Promise<string[]> {
  if (!(await page.evaluate<boolean>("'axe' in globalThis"))) await page.evaluate(AXE);
  if (!without.includes("color-contrast")) await page.evaluate(MARK_LOOKS);
  const rules = Object.fromEntries(without.map((rule) => [rule, { enabled: false }]));
  // of the thousands of elements without a violation nothing is reported
  const options = { rules, resultTypes: ["violations"], selectors: false };
  const found = await page.evaluate(`axe.run(${JSON.stringify(options)})`);
  const { violations } = found as { violations: { id: string; nodes: { html: string }[] }[] };
  return violations.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html.slice(0, 120)}`));
}
