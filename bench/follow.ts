/**
 * The indexer: backfill of a busy chain beside the raw limit of the same node and database, what more wallets cost, and how soon a
 * paid link is PAID. BENCH_BLOCKS (default 1000) of 200 transfers; BENCH_PAYMENTS (default 300); BENCH_MILLION=1 adds a million wallets
 * (minutes to make).
 */
import { startBusyChain } from "./busy-chain.ts";
import { measureBackfill, measureRawLimit, type Wallets } from "./index-backfill.ts";
import { measureLatency } from "./index-latency.ts";
import { describeMachine, printTable, type Row } from "./report.ts";

const BLOCKS = Number(process.env.BENCH_BLOCKS ?? 1_000);
const PAYMENTS = Number(process.env.BENCH_PAYMENTS ?? 300);
const TRANSFERS_A_BLOCK = 200;
const RECEIVERS = 10_000;

const CASES: Wallets[] = [
  { name: "10 wallets, none paid", receivers: 0, others: 10 },
  { name: "100 of 10,000 receivers are ours", receivers: 100, others: 0 },
  { name: "10,000 wallets, none paid", receivers: 0, others: 10_000 },
  { name: "10,000 wallets, 1 % of events ours", receivers: 100, others: 9_900 },
  { name: "10,000 wallets, all events ours", receivers: 10_000, others: 0 },
  ...(process.env.BENCH_MILLION === "1"
    ? [{ name: "1,000,000 wallets, none paid", receivers: 0, others: 1_000_000 }]
    : []),
];

export async function run(): Promise<void> {
  console.log(JSON.stringify({ bench: "index", machine: describeMachine() }));
  const chain = await startBusyChain({
    blocks: BLOCKS,
    transfersABlock: TRANSFERS_A_BLOCK,
    receivers: RECEIVERS,
  });
  const rows: Row[] = [];
  const note = (row: Row) => {
    console.log(JSON.stringify(row));
    rows.push(row);
  };
  try {
    note(await measureRawLimit(chain));
    for (const wallets of CASES) note(await measureBackfill(chain, wallets));
    printTable(rows);
  } finally {
    await chain.stop();
  }
  const latencies: Row[] = [];
  for (const hasWebSocket of [true, false]) {
    const row = await measureLatency(PAYMENTS, hasWebSocket);
    console.log(JSON.stringify(row));
    latencies.push(row);
  }
  printTable(latencies);
}
