/** Ponder on the same chain and Postgres server as our indexer: the same transfers stored, the same latencies measured. */
import { openDatabase, type Sql } from "../db/postgres/client.ts";
import { type BoundProcess, spawnBound } from "../local/processes/bound-process.ts";
import { startTestChain } from "../tests/support/chain.ts";
import { createTestDatabase } from "../tests/support/postgres.ts";
import { randomAddress } from "../tests/support/seed.ts";
import { type Arrivals, measureArrivals } from "./block-latency.ts";
import type { BusyChain } from "./busy-chain.ts";
import type { Backfill } from "./index-backfill.ts";
import { readUsage } from "./indexer-process.ts";
import type { Ponder } from "./ponder-project.ts";

type Installed = Exclude<Ponder, { reason: string }>;
type Running = { sql: Sql; process: BoundProcess; readySeconds: number };

const LOOK_MS = 10;
const TIMEOUT_MS = 180_000;
/** Ponder limits itself to 20 requests per second and URL at first; repeating the URL this often lifts that. */
const SAME_URL_TIMES = 20;

/** Ends when Ponder reports ready, which it does once everything final is stored. */
export async function measurePonderBackfill(
  ponder: Installed,
  chain: BusyChain,
  { isLimited }: { isLimited: boolean },
): Promise<Backfill> {
  const urls = Array.from({ length: isLimited ? 1 : SAME_URL_TIMES }, () => chain.rpcUrl);
  return withPonder(ponder, { urls }, async ({ sql, process, readySeconds }) => {
    const { cpuS, peakMb } = readUsage(process.pid);
    const [stored] = await sql<{ n: bigint }[]>`select count(*) as n from bench.transfers`;
    const what = isLimited ? "Ponder 0.17.7" : "Ponder 0.17.7, its request limit lifted";
    const events = chain.transfers();
    return { what, events, stored: Number(stored?.n ?? 0n), seconds: readySeconds, cpuS, peakMb };
  });
}

/** Latency from a block to the row of its transfer in Ponder's table. Milliseconds, sorted. */
export async function measurePonderLatency(
  ponder: Installed,
  arrivals: Arrivals,
  hasWebSocket: boolean,
): Promise<number[]> {
  const chain = await startTestChain();
  const settings = { urls: [chain.rpcUrl], ...(hasWebSocket ? { wsUrl: chain.wsUrl } : {}) };
  try {
    return await withPonder(ponder, settings, async ({ sql }) => {
      const to = randomAddress();
      return measureArrivals(chain, arrivals, async (amountUnits) => ({
        to,
        isSeen: async () =>
          (
            await sql`select 1 from bench.transfers where to_address = ${to} and amount_units = ${amountUnits}`
          ).length > 0,
      }));
    });
  } finally {
    await chain.stop();
  }
}

async function withPonder<Result>(
  { folder, node, script }: Installed,
  { urls, wsUrl }: { urls: readonly string[]; wsUrl?: string },
  work: (running: Running) => Promise<Result>,
): Promise<Result> {
  const db = await createTestDatabase();
  const sql = openDatabase(db.url, { name: "bench", maxConnections: 4 });
  const port = freePort();
  const { PATH, HOME } = process.env;
  let output = "";
  const startedMs = performance.now();
  const ponder = await spawnBound({
    command: node,
    args: [script, "start", "--schema", "bench", "--hostname", "127.0.0.1", "--port", String(port)],
    cwd: folder,
    env: {
      ...{ PATH, HOME, NODE_ENV: "production", PONDER_TELEMETRY_DISABLED: "true" },
      ...{ DATABASE_URL: db.url, RPC_URLS: urls.join(","), WS_URL: wsUrl },
    },
    stopSignal: "SIGTERM",
    onOutput: (chunk) => {
      output += chunk.toString();
    },
  });
  try {
    await waitUntilReady(port);
    return await work({ sql, process: ponder, readySeconds: (performance.now() - startedMs) / 1000 });
  } catch (error) {
    console.error(output);
    throw error;
  } finally {
    await ponder.stop();
    await sql.end();
    await db.drop();
  }
}

async function waitUntilReady(port: number): Promise<void> {
  const deadline = Date.now() + TIMEOUT_MS;
  while (Date.now() < deadline) {
    const response = await fetch(`http://127.0.0.1:${port}/ready`).catch(() => undefined);
    if (response?.status === 200) return;
    await Bun.sleep(LOOK_MS);
  }
  throw new Error(`Ponder was not ready within ${TIMEOUT_MS} ms`);
}

function freePort(): number {
  const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response() });
  const { port = 0 } = server;
  server.stop(true);
  return port;
}
