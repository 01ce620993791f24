/** The promises of `npm start`, with real parts: one folder, started, crashed, stopped and restarted. */
import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import postgres from "postgres";
import { findFreePort, isPortFree } from "../../local/free-port.ts";
import {
  isSameProcessAlive,
  type ProcessIdentity,
  waitUntilGone,
} from "../../local/processes/process-identity.ts";
import { isBrowserThere, launchBrowser } from "../checkout/browser.ts";
import { settingsOfRun } from "../support/compiled-services.ts";
import { FIRST_LINK, tryService } from "./newcomer.ts";

const MAIN = join(import.meta.dir, "../../local/main.ts");
const RUNNING = "Ctrl-C stops everything";
const TIMEOUT_MS = 240_000;
const SAID_WITHIN_MS = 120_000;
/** Each look opens a connection to the database, reads the chain's file or asks the API: many a second would take the CPU from what is waited for. */
const LOOK_EVERY_MS = 300;
const DASHBOARD = /Begin at (http:\S+) in a browser/;
/** Of the demo, and of who tried the service in a browser. */
const STATUSES = ["PAID", "ACTIVE", ...(isBrowserThere ? ["PAID"] : [])];
const OPEN_LINK = /pay it with one click, from a test wallet of the local chain:\s+(http:\S+\/pay\/link_\S+)/;

let dataDir = "";
const folders: string[] = [];
let env: Record<string, string | undefined>;

function openNewFolder(): void {
  dataDir = mkdtempSync(join(tmpdir(), "local-start-"));
  folders.push(dataDir);
  env.DATA_DIR = dataDir;
}
beforeAll(async () => {
  const [port, chainPort] = [await findFreePort(), await findFreePort()];
  const { PATH, HOME } = process.env;
  env = {
    PATH,
    HOME,
    ...settingsOfRun(),
    PORT: String(port),
    CHAIN_PORT: String(chainPort),
  };
});
/** A failed test must not leave its processes to the next one. */
const alive = new Set<Run["child"]>();
afterEach(async () => {
  for (const child of alive) {
    child.kill("SIGTERM");
    await child.exited;
  }
  alive.clear();
});
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

type Run = ReturnType<typeof start>;

function start(more: Record<string, string> = {}) {
  const child = Bun.spawn([process.execPath, MAIN], {
    env: { ...env, ...more },
    stdout: "pipe",
    stderr: "pipe",
  });
  alive.add(child);
  let said = "";
  const listen = async (stream: ReadableStream<Uint8Array>) => {
    const decoder = new TextDecoder();
    for await (const chunk of stream) said += decoder.decode(chunk, { stream: true });
  };
  const listening = Promise.all([listen(child.stdout), listen(child.stderr)]);
  const waitToSay = async (text: string) => {
    const deadline = Date.now() + SAID_WITHIN_MS;
    while (!said.includes(text)) {
      if (child.exitCode !== null || Date.now() > deadline) throw new Error(`never said "${text}":\n${said}`);
      await Bun.sleep(20);
    }
  };
  return { child, listening, waitToSay, said: () => said };
}

/** The processes of the service and the chain, by name. */
function readProcesses(): Record<string, ProcessIdentity> {
  const folder = join(dataDir, "processes");
  const entries = readdirSync(folder).map((name) => [
    name.replace(".json", ""),
    JSON.parse(readFileSync(join(folder, name), "utf8")) as ProcessIdentity,
  ]);
  return Object.fromEntries(entries);
}

function readPostmasterPid(): number {
  return Number(readFileSync(join(dataDir, "database/cluster/data/postmaster.pid"), "utf8").split("\n")[0]);
}

async function askDatabase<Row>(run: Run, ask: (sql: postgres.Sql) => Promise<Row[]>): Promise<Row[]> {
  const url = /Database\s+(postgres:\S+)/.exec(run.said())?.[1] ?? "";
  const sql = postgres(url, { max: 1, fetch_types: false });
  try {
    return await ask(sql);
  } finally {
    await sql.end();
  }
}

async function readLinkStatuses(run: Run): Promise<string[]> {
  const rows = await askDatabase(
    run,
    (sql) => sql<{ status: string }[]>`select status from payment_links order by created_at`,
  );
  return rows.map(({ status }) => status);
}

/** A killed chain loses its last moment, so what it paid has to be on disk first. */
async function waitUntilPaymentIsKept(run: Run): Promise<void> {
  const [paid] = await askDatabase(
    run,
    (sql) => sql<{ block: number }[]>`select max(block_number)::int as block from transfers`,
  );
  const file = join(dataDir, "chain/84532/state.json");
  await waitFor(async () => {
    if (!existsSync(file)) return false;
    const state = JSON.parse(readFileSync(file, "utf8")) as { best_block_number: number };
    return state.best_block_number >= (paid?.block ?? Number.POSITIVE_INFINITY);
  });
}

/** From the address that the start prints to a link that was paid and refunded. */
async function tryInBrowser(run: Run): Promise<void> {
  if (!isBrowserThere) return;
  const browser = await launchBrowser();
  try {
    const { visit, laps } = await tryService(browser, DASHBOARD.exec(run.said())?.[1] ?? "");
    visit.expectClean();
    console.log(laps.map(({ step, ms }) => `${step}: ${ms} ms`).join("\n"));
  } finally {
    await browser.close();
  }
  const links = await askDatabase(
    run,
    (sql) => sql<{ status: string; amount: string; refunded: string }[]>`
      select status, amount_units::text as amount, refunded_units::text as refunded
      from payment_links
      where description = ${FIRST_LINK}`,
  );
  expect(links.map((link) => ({ ...link }))).toEqual([
    { status: "PAID", amount: "12500000", refunded: "12500000" },
  ]);
}

async function stop(run: Run, signal: "SIGINT" | "SIGTERM" = "SIGINT"): Promise<void> {
  const processes = Object.values(readProcesses());
  run.child.kill(signal);
  expect(await run.child.exited).toBe(0);
  for (const identity of processes) expect(isSameProcessAlive(identity)).toBe(false);
  expect(await isPortFree(Number(env.PORT))).toBe(true);
  expect(await isPortFree(Number(env.CHAIN_PORT))).toBe(true);
}

test(
  "the first start runs the demo payment, recovers from crashes, and Ctrl-C leaves nothing running",
  async () => {
    // one that no attempt before this has started in
    openNewFolder();
    const earlier = join(dataDir, "postgres");
    mkdirSync(earlier);
    writeFileSync(join(earlier, "password"), "kept");
    const run = start();
    await run.waitToSay(RUNNING);
    // a database of an earlier version is left alone, and one sentence says so
    expect(run.said().split("can't be upgraded: a new one starts in ").length).toBe(2);
    expect(readdirSync(earlier)).toEqual(["password"]);
    expect(run.said()).toMatch(/ms {2}merchant {3}link_\S+ is PAID, the wallet holds 12\.500000 USDC/);
    expect(run.said()).toContain("Date,Type,Amount,Currency,Status,Network,Description,Transaction Hash");
    expect(await readLinkStatuses(run)).toEqual(["PAID", "ACTIVE"]);
    await run.waitToSay("/pay/link_");
    const openLink = OPEN_LINK.exec(run.said())?.[1] ?? "";
    const page = await (await fetch(openLink)).text();
    expect(page).toContain("<bdi>5.00</bdi>");
    expect(page).toContain("/assets/test-wallet-");

    await tryInBrowser(run);
    expect(await readLinkStatuses(run)).toEqual(STATUSES);

    const elsewhere = mkdtempSync(join(tmpdir(), "local-start-"));
    const [second, third] = [start(), start({ DATA_DIR: elsewhere })];
    for (const refused of [second, third]) {
      expect(await refused.child.exited).toBe(1);
      await refused.listening;
    }
    expect(second.said()).toContain(`${dataDir} is in use by process ${run.child.pid}.`);
    expect(third.said()).toContain(`Port ${env.PORT} is in use by another program.`);
    rmSync(elsewhere, { recursive: true });

    await waitUntilPaymentIsKept(run);
    for (const name of ["worker", "indexer", "api", "chain-base-sepolia"]) {
      const before = readProcesses()[name];
      if (!before) throw new Error(`${name} is not there`);
      process.kill(before.pid, "SIGKILL");
      await run.waitToSay(
        name.startsWith("chain") ? "The local chain of base-sepolia ended" : `${name} ended (SIGKILL)`,
      );
    }
    const api = `http://127.0.0.1:${env.PORT}`;
    const isReady = async () => (await fetch(`${api}/health/ready`)).ok;
    await waitFor(isReady);
    process.kill(readPostmasterPid(), "SIGKILL");
    await run.waitToSay("Postgres ended");
    await waitFor(async () => (await readLinkStatuses(run)).length === STATUSES.length);
    await waitFor(isReady);
    await stop(run);
  },
  TIMEOUT_MS,
);

test(
  "a second start keeps the data and runs no second demo; after a kill -9 of the supervisor its children end",
  async () => {
    const run = start();
    await run.waitToSay(RUNNING);
    expect(run.said()).not.toContain("merchant");
    // the sentence about an earlier database belongs to the first start
    expect(run.said()).not.toContain("can't be upgraded");
    // its last line
    await run.waitToSay("/pay/link_");
    expect(run.said()).toMatch(OPEN_LINK);
    await waitUntilPaid(run);
    const children = Object.values(readProcesses());
    run.child.kill("SIGKILL");
    await run.child.exited;
    for (const child of children) expect(await waitUntilGone(child, 60_000)).toBe(true);
  },
  TIMEOUT_MS,
);

test(
  "the next start recovers from the killed supervisor, and the one after it from a kill -9 of all processes",
  async () => {
    const run = start();
    await run.waitToSay(RUNNING);
    await waitUntilPaid(run);
    const children = Object.values(readProcesses());
    const pids = [run.child.pid, ...children.map(({ pid }) => pid), readPostmasterPid()];
    for (const pid of pids) process.kill(pid, "SIGKILL");
    await run.child.exited;
    const again = start();
    await again.waitToSay(RUNNING);
    await waitUntilPaid(again);
    await stop(again, "SIGTERM");
  },
  TIMEOUT_MS,
);

/** After a crash of the chain its last block may have been another one, and the indexer is not waited for by a start without demo. */
const waitUntilPaid = (run: Run) =>
  waitFor(async () => (await readLinkStatuses(run)).join() === STATUSES.join());

async function waitFor(isDone: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + 90_000;
  while (!(await isDone().catch(() => false))) {
    if (Date.now() > deadline) throw new Error("the condition did not become true in time");
    await Bun.sleep(LOOK_EVERY_MS);
  }
}
