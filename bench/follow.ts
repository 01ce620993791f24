/**
 * The indexer beside Ponder on the same chain and the same Postgres server: backfill, latency of a payment, and the cost of more
 * wallets. BENCH_BLOCKS (default 500) of 200 transfers; BENCH_PAYMENTS (default 300); BENCH_WALLETS (default 10,10000,1000000);
 * BENCH_PONDER=0 skips Ponder. `bun run bench index backfill` stops after the backfills, `bun run bench index latency` measures that alone.
 */
import { type Arrivals, nudged, polled, toLatencyRow } from "./block-latency.ts";
import { type BusyChain, startBusyChain } from "./busy-chain.ts";
import { type Backfill, measureBackfill, measureRawLimit, toBackfillRow } from "./index-backfill.ts";
import { measureLatency } from "./index-latency.ts";
import { measurePonderBackfill, measurePonderLatency } from "./index-ponder.ts";
import { measureSeen } from "./index-seen.ts";
import { measureWallets } from "./index-wallets.ts";
import { installPonder, type Ponder } from "./ponder-project.ts";
import { describeMachine, printTable, type Row } from "./report.ts";

const BLOCKS = Number(process.env.BENCH_BLOCKS ?? 500);
const PAYMENTS = Number(process.env.BENCH_PAYMENTS ?? 300);
const WALLETS = (process.env.BENCH_WALLETS ?? "10,10000,1000000").split(",").map(Number);
const TRANSFERS_A_BLOCK = 200;
const RECEIVERS = 10_000;
const SEEN = 60;
const POLL_MS = 1_000;
/** Polling takes half a second per payment. */
const POLLED_SHARE = 3;

export async function run(): Promise<void> {
  console.log(JSON.stringify({ bench: "index", machine: describeMachine() }));
  const ponder = await installPonder();
  if ("reason" in ponder) console.log(`Ponder is skipped: ${ponder.reason}`);
  if (process.argv[3] === "latency") return printTable(await measureLatencies(ponder));
  const busy = { blocks: BLOCKS, transfersABlock: TRANSFERS_A_BLOCK, receivers: RECEIVERS };
  const chain = await startBusyChain(busy);
  try {
    printTable(await measureBackfills(chain, ponder));
    if (process.argv[3] === "backfill") return;
    printTable(await measureLatencies(ponder));
    const rows: Row[] = [];
    for (const count of WALLETS) rows.push(note(await measureWallets(chain, count)));
    printTable(rows);
  } finally {
    await chain.stop();
  }
}

async function measureBackfills(chain: BusyChain, ponder: Ponder): Promise<Row[]> {
  const raw = await measureRawLimit(chain);
  const rows: Row[] = [];
  const add = (backfill: Backfill) => rows.push(note(toBackfillRow(backfill, raw.events / raw.seconds)));
  add(raw);
  add(await measureBackfill(chain, "ours, every event is ours", { receivers: RECEIVERS, others: 0 }));
  add(await measureBackfill(chain, "ours, 1 % of events is ours", { receivers: 100, others: 9_900 }));
  if ("reason" in ponder) return rows;
  for (const isLimited of [true, false]) {
    const theirs = await orGoOn(measurePonderBackfill(ponder, chain, { isLimited }));
    if (theirs) add(theirs);
  }
  return rows;
}

async function measureLatencies(ponder: Ponder): Promise<Row[]> {
  const rows: Row[] = [];
  const ways: { blocks: string; arrivals: Arrivals; hasWebSocket: boolean }[] = [
    { blocks: "websocket", arrivals: nudged(PAYMENTS), hasWebSocket: true },
    {
      blocks: "polling, 1 s",
      arrivals: polled(Math.ceil(PAYMENTS / POLLED_SHARE), POLL_MS),
      hasWebSocket: false,
    },
  ];
  for (const { blocks, arrivals, hasWebSocket } of ways) {
    const ours = await measureLatency(arrivals, hasWebSocket);
    rows.push(note(toLatencyRow("ours: PAID over HTTP", blocks, ours)));
    if ("reason" in ponder) continue;
    const theirs = await orGoOn(measurePonderLatency(ponder, arrivals, hasWebSocket));
    if (theirs) rows.push(note(toLatencyRow("Ponder 0.17.7: row in its table", blocks, theirs)));
  }
  const seen = await measureSeen(SEEN);
  return [...rows, note(toLatencyRow('ours: "payment seen" on the page', "pending logs, 250 ms", seen))];
}

/** A failure of Ponder must not prevent our own measurement. */
async function orGoOn<Result>(measuring: Promise<Result>): Promise<Result | undefined> {
  try {
    return await measuring;
  } catch (error) {
    console.log(`Ponder is skipped here: ${String(error)}`);
    return undefined;
  }
}

function note(row: Row): Row {
  console.log(JSON.stringify(row));
  return row;
}
