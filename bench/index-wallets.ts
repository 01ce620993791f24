/** The cost of watching more wallets, none of them paid: start, backfill, idle, and each block at the head. */
import { openDatabase, type Sql } from "../db/postgres/client.ts";
import { callRpc } from "../local/chain/rpc.ts";
import { createTestDatabase } from "../tests/support/postgres.ts";
import type { BusyChain } from "./busy-chain.ts";
import { NETWORK, readUsage, seedWallets, startIndexer, waitForCursor } from "./indexer-process.ts";
import { percentile, type Row, round } from "./report.ts";

const HEAD_BLOCKS = 30;
const PAUSE_MS = 50;
const SETTLE_MS = 3_000;

export async function measureWallets(chain: BusyChain, count: number): Promise<Row> {
  const db = await createTestDatabase();
  const sql = openDatabase(db.url, { name: "bench", maxConnections: 2 });
  try {
    const seeding = openDatabase(db.url, { name: "bench seeding", maxConnections: 1, silenceTimeoutS: 0 });
    await seedWallets(seeding, { receivers: 0, others: count });
    await seeding.end();
    const head = Number(await callRpc(chain.rpcUrl, "eth_blockNumber"));
    const startedMs = performance.now();
    const first = await startIndexer(db.url, chain.rpcUrl);
    await waitForCursor(sql, head);
    const seconds = (performance.now() - startedMs) / 1000;
    const { peakMb } = readUsage(first.pid);
    const events = chain.transfers();
    await first.stop();

    const second = await startIndexer(db.url, chain.rpcUrl);
    await Bun.sleep(SETTLE_MS);
    const atRest = readUsage(second.pid);
    const blocks = await followHead(chain, sql);
    const after = readUsage(second.pid);
    await second.stop();
    return {
      ...{ bench: "index wallets", wallets: count, "start ms": Math.round(second.leadingMs) },
      ...{ "events/s": Math.round(events / seconds), "peak MB": peakMb, "rest MB": atRest.residentMb },
      ...{ "block p50 ms": percentile(blocks, 0.5), "block max ms": percentile(blocks, 1) },
      "CPU ms/block": round(((after.cpuS - atRest.cpuS) * 1000) / HEAD_BLOCKS),
      "head MB": after.residentMb,
    };
  } finally {
    await sql.end();
    await db.drop();
  }
}

/** One block at a time; milliseconds from the node's answer that it mined one to its commit, sorted. */
async function followHead(chain: BusyChain, sql: Sql): Promise<number[]> {
  const committed = new Map<number, number>();
  const listening = await sql.listen("block", (payload) => {
    const [network, number] = payload.split(":");
    if (network === NETWORK) committed.set(Number(number), performance.now());
  });
  const times: number[] = [];
  for (let n = 0; n < HEAD_BLOCKS; n++) {
    await chain.mine(1);
    const minedMs = performance.now();
    const number = Number(await callRpc(chain.rpcUrl, "eth_blockNumber"));
    await waitForCursor(sql, number);
    // the notification and the answer to the last poll arrive on two connections
    while (!committed.has(number)) await Bun.sleep(1);
    times.push((committed.get(number) ?? minedMs) - minedMs);
    await Bun.sleep(PAUSE_MS);
  }
  await listening.unlisten();
  return times.sort((a, b) => a - b);
}
