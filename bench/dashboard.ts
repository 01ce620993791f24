/**
 * The dashboard in Chromium with 10,000 transactions: script and time per page change, memory over 500 page changes, and how long another
 * device's change takes to appear in two browsers, measured from its response (the event is committed then).
 */
import type { CDPSession, Page } from "playwright-core";
import type { Sql } from "../db/postgres/client.ts";
import {
  type DashboardWorld,
  signUpInBrowser,
  startDashboardWorld,
} from "../tests/dashboard/dashboard-world.ts";
import { newEmail } from "../tests/support/sign-up.ts";
import { describeMachine, percentile, printTable, type Row, round } from "./report.ts";

const TRANSACTIONS = 10_000;
const WARM_UP = 20;
const PAGE_CHANGES = 500;
const MEMORY_EVERY = 100;
const CHANGES = 30;
const DEADLINE_MS = 60_000;

/** Records when a text appeared on the page. */
const OBSERVE = `
  globalThis.seenAt = {};
  globalThis.awaited = undefined;
  new MutationObserver(() => {
    if (globalThis.awaited && document.body.textContent.includes(globalThis.awaited)) {
      globalThis.seenAt[globalThis.awaited] = Date.now();
      globalThis.awaited = undefined;
    }
  }).observe(document.body, { childList: true, subtree: true, characterData: true })`;

export async function run(): Promise<void> {
  console.log(JSON.stringify({ bench: "dashboard", machine: describeMachine() }));
  const dashboard = await startDashboardWorld({
    env: { LOG_LEVEL: "warn", RATE_LIMITS: "0", NODE_ENV: "test" },
  });
  try {
    const visit = await dashboard.open("/", { allowedErrors: /status of 40[14]/ });
    const { page } = visit;
    await signUpInBrowser(page, newEmail());
    await fill(dashboard.world.sql);
    printTable(await measureLive(dashboard, page));
    printTable(await measurePageChanges(dashboard, page));
    await visit.close();
  } finally {
    await dashboard.stop();
  }
}

/** History of the only user: confirmed transfers to the wallet. */
async function fill(sql: Sql): Promise<void> {
  await sql`
    insert into transactions (
      id, owner, network, type, status, amount_units, counterparty, description, tx_hash, block_number, detected_at, confirmed_at
    )
    select
      'txn_' || lpad(number::text, 22, '0'), owner_key(users.id), 'base-sepolia', 'RECEIVE', 'CONFIRMED', 1000000 + number,
      decode(lpad(to_hex(number), 40, 'a'), 'hex'), 'Order ' || number, decode(lpad(to_hex(number), 64, 'b'), 'hex'), number,
      now() - make_interval(mins => number), now() - make_interval(mins => number)
    from generate_series(1, ${TRANSACTIONS}::int) number
    cross join users`;
}

async function measurePageChanges({ world }: DashboardWorld, page: Page): Promise<Row[]> {
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("Performance.enable");
  await page.goto(`${world.baseUrl}/transactions`);
  await page.getByText(/^1 to 50 of/).waitFor();
  const script: number[] = [];
  const task: number[] = [];
  const wall: number[] = [];
  const rows: Row[] = [];
  let number = 1;
  const change = async () => {
    const isLast = number >= TRANSACTIONS / 50;
    number = isLast ? 1 : number + 1;
    const before = await metricsOf(cdp);
    const startedMs = performance.now();
    if (isLast) await page.getByRole("link", { name: "Transactions", exact: true }).click();
    else await page.getByRole("button", { name: "Older" }).click();
    const first = new Intl.NumberFormat("en-US").format((number - 1) * 50 + 1);
    await untilTrue(
      page,
      `document.querySelector("nav.pager p")?.textContent.startsWith("${first} to") && !document.querySelector("table.old")`,
    );
    wall.push(performance.now() - startedMs);
    const after = await metricsOf(cdp);
    script.push(1_000 * (after.ScriptDuration - before.ScriptDuration));
    task.push(1_000 * (after.TaskDuration - before.TaskDuration));
  };
  for (let done = 0; done < WARM_UP; done += 1) await change();
  for (const values of [script, task, wall]) values.length = 0;
  const memory = async (changes: number) => {
    await cdp.send("HeapProfiler.collectGarbage");
    const { JSHeapUsedSize, Nodes } = await metricsOf(cdp);
    rows.push({ bench: "memory", changes, "heap MB": round(JSHeapUsedSize / 1e6), "DOM nodes": Nodes });
  };
  await memory(0);
  for (let done = 1; done <= PAGE_CHANGES; done += 1) {
    await change();
    if (done % MEMORY_EVERY === 0) await memory(done);
  }
  const line = (name: string, values: readonly number[]): Row => {
    const sorted = values.toSorted((one, other) => one - other);
    return {
      "page change, ms": name,
      p50: percentile(sorted, 0.5),
      p95: percentile(sorted, 0.95),
      max: percentile(sorted, 1),
    };
  };
  printTable([line("script", script), line("script, layout and paint", task), line("click to rows", wall)]);
  return rows;
}

type Metrics = Record<"ScriptDuration" | "TaskDuration" | "JSHeapUsedSize" | "Nodes", number>;

async function metricsOf(cdp: CDPSession): Promise<Metrics> {
  const { metrics } = await cdp.send("Performance.getMetrics");
  return Object.fromEntries(metrics.map(({ name, value }) => [name, value])) as Metrics;
}

/** Two browsers of one merchant: each has an event stream of its own. */
async function measureLive({ world, browser }: DashboardWorld, page: Page): Promise<Row[]> {
  const state = await page.context().storageState();
  const other = await browser.newContext({ storageState: state, locale: "en-US" });
  const pages = [page, await other.newPage()];
  for (const one of pages) {
    await one.goto(`${world.baseUrl}/links`);
    await one.getByText("No links yet").waitFor();
    await one.evaluate(OBSERVE);
  }
  // the second browser's stream is open once it shows something
  const created: Seen[] = [];
  const cancelled: Seen[] = [];
  for (let round = 0; round < CHANGES; round += 1) {
    const description = `Link ${round} of the bench`;
    const made = await timed(pages, description, () =>
      page.request.post(`${world.baseUrl}/v1/payment-links`, { data: { amount: 1, description } }),
    );
    const { id } = await made.response.json();
    if (round > 0) created.push(...made.times);
    const ended = await timed(pages, `${description}Cancelled`, () =>
      page.request.post(`${world.baseUrl}/v1/payment-links/${id}/cancel`, { data: {} }),
    );
    if (round > 0) cancelled.push(...ended.times);
  }
  await other.close();
  const line = (name: string, seen: readonly Seen[], since: keyof Seen): Row => {
    const sorted = seen.map((one) => one[since]).toSorted((one, next) => one - next);
    return {
      "to both screens, ms": name,
      p50: percentile(sorted, 0.5),
      p95: percentile(sorted, 0.95),
      max: percentile(sorted, 1),
    };
  };
  return [
    line("a new link, from the answer (committed)", created, "sinceAnswer"),
    line("a new link, from the request", created, "sinceRequest"),
    line("a cancelled link, from the answer (committed)", cancelled, "sinceAnswer"),
    line("a cancelled link, from the request", cancelled, "sinceRequest"),
  ];
}

type Seen = { sinceRequest: number; sinceAnswer: number };

async function timed<Response>(pages: readonly Page[], text: string, act: () => Promise<Response>) {
  for (const one of pages) await one.evaluate(`globalThis.awaited = ${JSON.stringify(text)}`);
  const startedMs = Date.now();
  const response = await act();
  const answeredMs = Date.now();
  const times: Seen[] = [];
  for (const one of pages) {
    await untilTrue(one, `globalThis.seenAt[${JSON.stringify(text)}]`);
    const seenMs = Number(await one.evaluate(`globalThis.seenAt[${JSON.stringify(text)}]`));
    times.push({ sinceRequest: seenMs - startedMs, sinceAnswer: seenMs - answeredMs });
  }
  return { response, times };
}

/** Polled in the page, whose policy does not let `waitForFunction` evaluate code. */
async function untilTrue(page: Page, expression: string): Promise<void> {
  await page.evaluate(`new Promise((resolve, reject) => {
    const untilMs = Date.now() + ${DEADLINE_MS};
    const ask = () => {
      if (${expression}) return resolve();
      if (Date.now() > untilMs) return reject(new Error("waited too long"));
      setTimeout(ask, 10);
    };
    ask();
  })`);
}
