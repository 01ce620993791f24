/**
 * `bun tests/ops/game-day.ts [ALERT …]`: provokes each alarm of the runbook on a service of its own, sees it fire in a real Prometheus with the
 * shipped rules (waits and windows shortened), does what the runbook says, and sees it end. `PICTURES=folder` keeps `/ops` of each as a
 * picture. Exits with 1 when an alarm did not fire, did not end, a payment was lost or made twice, or, after all of them, a panel of the
 * shipped dashboard shows nothing.
 */
import { join } from "node:path";
import { localRelayerKeys } from "../../local/chain/accounts.ts";
import { launchBrowser } from "../checkout/browser.ts";
import { newOrder, pay, startLab, waitFor, waitForLink } from "../support/relay-lab.ts";
import { startRemoteSigner } from "../support/remote-signer.ts";
import type { GameDay } from "./game-day-scenario.ts";
import { relayerOf, SCENARIOS } from "./game-day-scenarios.ts";
import { readAlertNames, readPanels, startPrometheus } from "./prometheus.ts";

/** The longest threshold is a minute; a window of `rate` has to pass after the cure. */
const FIRES_WITHIN_MS = 180_000;
const ENDS_WITHIN_MS = 180_000;
const PROCESSES = ["api", "worker", "indexer"] as const;

if (!Bun.which("prometheus")) {
  console.error("prometheus is not installed (Debian: apt-get install prometheus)");
  process.exit(69); // EX_UNAVAILABLE of sysexits.h
}
const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => !SCENARIOS.some(({ alert }) => alert === name));
if (unknown.length > 0) {
  console.error(
    `no scenario for ${unknown.join(", ")}; there are ${SCENARIOS.map(({ alert }) => alert).join(", ")}`,
  );
  process.exit(64); // EX_USAGE of sysexits.h
}

const [key = "0x"] = localRelayerKeys();
const signer = await startRemoteSigner([key]);
const programs: GameDay["programs"] = new Map();
const lab = await startLab({
  programOf: (name) => programs.get(name),
  env: { RELAYER_SIGNER_URL: signer.url, RELAYER_SIGNER_ADDRESSES: relayerOf(key), RELAYER_PRIVATE_KEYS: "" },
  hasMetrics: true,
});
const targets = PROCESSES.map((kind) => ({ kind, address: lab.service.metricsOf(kind) }));
const prometheus = await startPrometheus(targets);
const day: GameDay = { lab, signer, prometheus, targets, programs };
const isFiring = async (name: string) => (await prometheus.readFiring()).find((alert) => alert.name === name);
let failures = 0;

for (const { alert, cureText, provoke } of SCENARIOS) {
  if (wanted.length > 0 && !wanted.includes(alert)) continue;
  const startedMs = Date.now();
  const elapsed = () => `${Math.round((Date.now() - startedMs) / 1000)} s`;
  let cure: (() => Promise<unknown>) | undefined;
  try {
    cure = await provoke(day);
    const { summary } = await waitFor(`${alert} to fire`, () => isFiring(alert), FIRES_WITHIN_MS);
    console.log(`${alert} fired after ${elapsed()}: ${summary}`);
    await takePicture(alert);
    await cure();
    cure = undefined;
    await waitFor(`${alert} to end`, async () => !(await isFiring(alert)), ENDS_WITHIN_MS);
    console.log(`${alert} ended after ${elapsed()}: ${cureText}`);
  } catch (error) {
    failures += 1;
    console.error(`${alert} FAILED after ${elapsed()}: ${error instanceof Error ? error.message : error}`);
    await cure?.().catch((fault) => console.error(`the cure of ${alert} failed: ${fault}`));
  }
}

const order = await newOrder(lab);
await pay(lab, order);
await waitForLink(lab, order.linkId, "PAID");
const [books] = await lab.sql<{ unpaid: number; twice: number }[]>`
  select
    (select count(*) from payments where state in ('QUEUED', 'SIGNED', 'BROADCAST'))::int as unpaid,
    (
      select count(*)
      from (select link_id from transfers where pays and status <> 'ORPHANED' group by link_id having count(*) > 1) twice
    )::int as twice`;
console.log(`payments still open: ${books?.unpaid}, links paid twice: ${books?.twice}`);
if (books?.twice !== 0) failures += 1;
if (wanted.length === 0) {
  for (const { title, expression } of readPanels()) {
    const series = await prometheus.countSeries(expression);
    if (series > 0) continue;
    failures += 1;
    console.error(`the panel "${title}" shows nothing: ${expression}`);
  }
  console.log(`${readPanels().length} panels of the dashboard were evaluated`);
}
const missing = readAlertNames().filter((name) => !SCENARIOS.some(({ alert }) => alert === name));
if (missing.length > 0) console.log(`not provoked here: ${missing.join(", ")}`);
await prometheus.stop();
await lab.stop();
await signer.stop();
process.exit(failures === 0 ? 0 : 1);

async function takePicture(alert: string): Promise<void> {
  const folder = process.env.PICTURES;
  if (!folder) return;
  const address = targets.find(({ kind }) => kind !== "worker")?.address;
  const browser = await launchBrowser();
  const page = await browser.newPage({ viewport: { width: 1_280, height: 800 } });
  await page.goto(`http://${address}/ops`);
  await page.screenshot({ path: join(folder, `${alert}.png`), fullPage: true });
  await browser.close();
}
