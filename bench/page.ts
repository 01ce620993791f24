/**
 * The payment page as a payer experiences it: the API's CPU per page, bytes over the wire, time to a working pay button on a slow phone (CPU
 * slowed down four times, 1.6 Mbit/s, 150 ms), and time from the wallet's signature to "Paid" on the screen with one-second blocks.
 */
import type { Browser } from "playwright-core";
import { launchBrowser } from "../tests/checkout/browser.ts";
import { makeTestWallet } from "../tests/checkout/test-wallet.ts";
import { seedLinks, seedMerchant } from "../tests/support/seed.ts";
import { startWorld, type World } from "../tests/support/world.ts";
import { cpuMilliseconds } from "./cpu-time.ts";
import { describeMachine, percentile, printTable, type Row } from "./report.ts";

const WARM_UP = 100;
const PAGES = 500;
const PAGES_AT_ONCE = 8;
const VISITS = 7;
const PAYMENTS = 7;
const CPU_SLOWDOWN = 4;
const LATENCY_MS = 150;
const BYTES_PER_S = 1_600_000 / 8;
const BLOCK_TIME_S = 1;
const PAID_TIMEOUT_MS = 60_000;

/** Records in the page when the button appears, and when the page says "Paid". */
const OBSERVE = `new MutationObserver(() => {
  if (globalThis.readyMs === undefined && document.querySelector("#pay button.button")) globalThis.readyMs = performance.now();
  if (globalThis.paidMs === undefined && document.querySelector("#pay .icon.ok")) globalThis.paidMs = Date.now();
}).observe(document, { childList: true, subtree: true })`;

export async function run(): Promise<void> {
  console.log(JSON.stringify({ bench: "page", machine: describeMachine() }));
  const world = await startWorld({
    blockTimeS: BLOCK_TIME_S,
    env: { LOG_LEVEL: "warn", RATE_LIMITS: "0", NODE_ENV: "test" },
  });
  const browser = await launchBrowser();
  try {
    const merchant = await seedMerchant(world.sql);
    const makeUrls = async (count: number) =>
      (await seedLinks(world.sql, merchant, { count })).map((id) => `${world.baseUrl}/pay/${id}`);
    await readAll(await makeUrls(WARM_UP));
    const urls = await makeUrls(PAGES);
    printTable([
      await measureServer(world, "server, first page of a link", urls),
      await measureServer(world, "server, again", urls),
    ]);
    printTable([await measureReady(world, browser, await makeUrls(VISITS))]);
    printTable([await measurePaid(world, browser, await makeUrls(PAYMENTS))]);
  } finally {
    await browser.close();
    await world.stop();
  }
}

async function readAll(urls: readonly string[]): Promise<void> {
  const left = [...urls];
  const reader = async () => {
    for (let url = left.pop(); url; url = left.pop())
      await (await fetch(url, { headers: { "accept-encoding": "gzip" } })).arrayBuffer();
  };
  await Promise.all(Array.from({ length: PAGES_AT_ONCE }, reader));
}

async function measureServer(world: World, what: string, urls: readonly string[]): Promise<Row> {
  const pids = [world.pidOf("api")];
  const [cpuBefore, startedMs] = [cpuMilliseconds(pids), performance.now()];
  await readAll(urls);
  const seconds = (performance.now() - startedMs) / 1000;
  return {
    what,
    pages: urls.length,
    "cpu ms a page": ((cpuMilliseconds(pids) - cpuBefore) / urls.length).toFixed(2),
    "pages/s": Math.round(urls.length / seconds),
  };
}

/** Each visit with an empty cache. */
async function measureReady(world: World, browser: Browser, urls: readonly string[]): Promise<Row> {
  const wallet = await makeTestWallet(world.chain.rpcUrl);
  const times: number[] = [];
  let bytes = 0;
  for (const url of urls) {
    const context = await browser.newContext({
      viewport: { width: 390, height: 844 },
      reducedMotion: "reduce",
    });
    const page = await context.newPage();
    const devTools = await context.newCDPSession(page);
    bytes = 0;
    devTools.on("Network.loadingFinished", ({ encodedDataLength }) => {
      bytes += encodedDataLength;
    });
    await devTools.send("Network.enable");
    const network = { offline: false, latency: LATENCY_MS };
    await devTools.send("Network.emulateNetworkConditions", {
      ...{ ...network, downloadThroughput: BYTES_PER_S, uploadThroughput: BYTES_PER_S },
    });
    await devTools.send("Emulation.setCPUThrottlingRate", { rate: CPU_SLOWDOWN });
    await wallet.install(page);
    await page.addInitScript(OBSERVE);
    await page.goto(url);
    await page.waitForFunction(() => "readyMs" in globalThis);
    times.push(await page.evaluate<number>("readyMs"));
    await context.close();
  }
  return {
    what: "button works",
    visits: urls.length,
    "kB over the wire": (bytes / 1000).toFixed(1),
    ...spread(times),
  };
}

async function measurePaid(world: World, browser: Browser, urls: readonly string[]): Promise<Row> {
  const times: number[] = [];
  for (const url of urls) {
    const gate = Promise.withResolvers<void>();
    const wallet = await makeTestWallet(world.chain.rpcUrl, { holdUntil: gate.promise });
    const context = await browser.newContext({ reducedMotion: "reduce" });
    const page = await context.newPage();
    await wallet.install(page);
    await page.addInitScript(OBSERVE);
    await page.goto(url);
    await page.getByRole("button", { name: "Pay with" }).click();
    await page.getByText("Confirm in").waitFor();
    const signedMs = Date.now();
    gate.resolve();
    await page.waitForFunction(() => "paidMs" in globalThis, undefined, { timeout: PAID_TIMEOUT_MS });
    times.push((await page.evaluate<number>("paidMs")) - signedMs);
    await context.close();
  }
  return { what: `signature to paid, ${BLOCK_TIME_S} s blocks`, payments: urls.length, ...spread(times) };
}

function spread(times: readonly number[]): Row {
  const sorted = times.toSorted((a, b) => a - b);
  return {
    "median ms": Math.round(percentile(sorted, 0.5)),
    "least ms": Math.round(sorted[0] ?? 0),
    "most ms": Math.round(sorted.at(-1) ?? 0),
  };
}
