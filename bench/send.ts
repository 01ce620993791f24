/** Sends from passkey wallets: gas per send alone and for 2, 10 and 50 queued together; a payout of 100; CPU; time from confirmation to CONFIRMED. */
import type { Hex } from "../core/domain/networks.ts";
import { fundUsdc } from "../local/chain/usdc.ts";
import { randomAddress } from "../tests/support/indexer-lab.ts";
import { confirmSend, prepareSend, waitForSend } from "../tests/support/sends.ts";
import { type Merchant, signUp } from "../tests/support/sign-up.ts";
import { type ProcessName, startWorld, type World } from "../tests/support/world.ts";
import { cpuMilliseconds } from "./cpu-time.ts";
import { describeMachine, percentile, printTable, type Row, round } from "./report.ts";

const FUNDS = 1_000_000_000n;
const WAITING = [1, 2, 10, 50] as const;
const PAYOUT = 100;
const TIMED_SENDS = 20;
const RECEIPT_POLL_MS = 50;
const PROCESSES: readonly ProcessName[] = ["api", "worker", "indexer"];

export async function run(): Promise<void> {
  console.log(JSON.stringify({ bench: "send", machine: describeMachine() }));
  const rows: Row[] = [];
  const world = await startWorld({
    env: { LOG_LEVEL: "warn", RATE_LIMITS: "0", SEND_GAS_PER_DAY: "1000000000" },
  });
  try {
    const wallets = await Promise.all(Array.from({ length: Math.max(...WAITING) }, () => makeWallet(world)));
    const to = randomAddress();
    await sendTogether(world, wallets, to); // deployed, and the recipient known
    rows.push(await sendAlone(world, wallets.slice(0, TIMED_SENDS), to));
    for (const count of WAITING) rows.push(await sendTogether(world, wallets.slice(0, count), to));
    for (const what of ["new", "known"]) rows.push(await payOut(world, wallets[0] as Merchant, what));
    for (const row of rows) console.log(JSON.stringify(row));
  } finally {
    await world.stop();
  }
  printTable(rows);
  await timeSends();
}

async function makeWallet(world: World): Promise<Merchant> {
  const merchant = await signUp(world.baseUrl);
  await fundUsdc(world.chain.rpcUrl, merchant.walletAddress as Hex, FUNDS);
  return merchant;
}

/** All are confirmed while no worker runs, so that they are queued together. */
async function sendTogether(world: World, wallets: readonly Merchant[], to: Hex): Promise<Row> {
  await world.kill("worker", "SIGTERM");
  const ids: string[] = [];
  for (const wallet of wallets) ids.push(await confirm(wallet, { to, amount: "1" }));
  await world.start("worker");
  await Promise.all(wallets.map((wallet, index) => waitForSend(wallet, ids[index] ?? "")));
  return { what: `${wallets.length} waiting`, ...(await gasOf(world, ids)), cpuMs: "" };
}

/** One after another, each from its own wallet, while the worker runs. */
async function sendAlone(world: World, wallets: readonly Merchant[], to: Hex): Promise<Row> {
  const before = cpuOf(world);
  const ids: string[] = [];
  for (const wallet of wallets) {
    const id = await confirm(wallet, { to, amount: "1" });
    await waitForSend(wallet, id);
    ids.push(id);
  }
  return { what: "alone", ...(await gasOf(world, ids)), cpuMs: cpuMs(world, before, ids.length) };
}

const recipients = Array.from({ length: PAYOUT }, randomAddress);

async function payOut(world: World, wallet: Merchant, what: string): Promise<Row> {
  const before = cpuOf(world);
  const id = await confirm(wallet, { payments: recipients.map((to) => ({ to, amount: "0.01" })) });
  await waitForSend(wallet, id);
  const { transactions, gas } = await gasOf(world, [id]);
  return {
    ...{
      what: `payout of ${PAYOUT}, ${what} recipients`,
      transactions,
      gas,
      gasEach: Math.round(gas / PAYOUT),
    },
    cpuMs: cpuMs(world, before, PAYOUT),
  };
}

async function confirm(wallet: Merchant, body: Record<string, unknown>): Promise<string> {
  const prepared = await prepareSend(wallet, body);
  const answer = await confirmSend(wallet, prepared);
  if (answer.status !== 202) throw new Error(answer.text);
  return prepared.sendId;
}

/** Waits for the receipts, which are read after the indexer has settled the sends. */
async function gasOf(world: World, ids: readonly string[]) {
  for (;;) {
    const [row] = await world.sql<{ transactions: number; receipts: number; gas: bigint | null }[]>`
      select count(*)::int as transactions, count(gas_used)::int as receipts, sum(gas_used)::bigint as gas
      from relays
      where id in (select relay_id from wallet_operations where id = any(${[...ids]}::text[]))`;
    if (row && row.receipts === row.transactions) {
      const gas = Number(row.gas);
      return { transactions: row.transactions, gas, gasEach: Math.round(gas / ids.length) };
    }
    await Bun.sleep(RECEIPT_POLL_MS);
  }
}

function cpuOf(world: World): number {
  return cpuMilliseconds(PROCESSES.map((name) => world.pidOf(name)));
}

/** Of all processes, per send. */
function cpuMs(world: World, before: number, sends: number): number {
  return round((cpuOf(world) - before) / sends);
}

/** With one-second blocks, one send after another. */
async function timeSends(): Promise<void> {
  const world = await startWorld({ blockTimeS: 1, env: { LOG_LEVEL: "warn", RATE_LIMITS: "0" } });
  try {
    const wallet = await makeWallet(world);
    const times: number[] = [];
    for (let count = 0; count < TIMED_SENDS; count++) {
      const prepared = await prepareSend(wallet, { to: recipients[0], amount: "0.01" });
      const startedMs = performance.now();
      await confirmSend(wallet, prepared);
      await waitForSend(wallet, prepared.sendId);
      times.push(performance.now() - startedMs);
    }
    times.sort((a, b) => a - b);
    const row = { sends: TIMED_SENDS, p50Ms: percentile(times, 0.5), p95Ms: percentile(times, 0.95) };
    console.log(JSON.stringify({ what: "confirmation to CONFIRMED, blocks of 1 s", ...row }));
  } finally {
    await world.stop();
  }
}
