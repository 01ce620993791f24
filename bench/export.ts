/**
 * Exports of 10,000 rows through HTTP, worker and database: time from request to last byte, the worker's memory, and what eight at
 * once from eight merchants do to it and to other requests. Memory is the resident set of the worker process (Linux).
 */
import { readFileSync } from "node:fs";
import { openDatabase, type Sql } from "../db/client.ts";
import { startWorld, type World } from "../tests/support/world.ts";
import { describeMachine, percentile, printTable } from "./report.ts";
import { seedHistory } from "./seed-history.ts";

const ROWS = 10_000;
const MERCHANTS = 8;
const REPEATS = 5;
const SAMPLE_EVERY_MS = 20;
const QUIET_REQUESTS = 200;
/** Between two list requests: others' requests, not a load test. */
const PAUSE_MS = 20;
const FORMATS = [
  { name: "csv", format: "csv", accept: "*/*" },
  { name: "json", format: "json", accept: "*/*" },
  { name: "text", format: "pdf", accept: "*/*" },
  { name: "pdf", format: "pdf", accept: "application/pdf" },
] as const;
type Format = (typeof FORMATS)[number];
type Row = Record<string, string | number>;
type Headers = Record<string, string>;

export async function run(): Promise<void> {
  console.log(JSON.stringify({ bench: "export", machine: describeMachine(), rows: ROWS }));
  const world = await startWorld({
    env: { NODE_ENV: "test", LOG_LEVEL: "warn", RATE_LIMITS: "0", TEST_MODE: "1" },
  });
  const sql = openDatabase(world.db.url, { name: "bench", maxConnections: 2 });
  try {
    const callers = await seedMerchants(world, sql);
    const rows: Row[] = [];
    for (const format of FORMATS) rows.push(await measureOne(world, callers, format));
    for (const format of FORMATS) rows.push(await measureTogether(world, callers, format));
    printTable(rows);
  } finally {
    await sql.end({ timeout: 1 });
    await world.stop();
  }
}

/** Eight merchants with ROWS rows each, signed in. */
async function seedMerchants(world: World, sql: Sql): Promise<Headers[]> {
  await seedHistory(sql, { transactions: ROWS * MERCHANTS, links: 1_000, merchants: MERCHANTS });
  await sql`
    update transactions
    set user_id = 'user_00000000-0000-4000-8000-' || lpad((1 + (right(id, 18)::bigint % ${MERCHANTS}))::text, 12, '0')
    where id like 'txn_seed%'`;
  await sql`delete from transactions where id like 'txn_small%'`;
  await sql`analyze`;
  const callers = Array.from({ length: MERCHANTS }, (_, n) =>
    signIn(world.baseUrl, `merchant${n + 1}@seed.example`),
  );
  return Promise.all(callers);
}

async function measureOne(world: World, [caller = {}]: Headers[], format: Format): Promise<Row> {
  await download(world, caller, format);
  const memory = watchMemory(world.pidOf("worker"));
  const times: number[] = [];
  let bytes = 0;
  for (let n = 0; n < REPEATS; n++) {
    const startedMs = performance.now();
    bytes = await download(world, caller, format);
    times.push(performance.now() - startedMs);
  }
  times.sort((a, b) => a - b);
  return report({ format: format.name, "at once": 1, times, bytes, memory: memory.stop(), quiet: [] });
}

async function measureTogether(world: World, callers: Headers[], format: Format): Promise<Row> {
  const before = await askMeanwhile(world, callers[0] ?? {}, () => false, QUIET_REQUESTS);
  const memory = watchMemory(world.pidOf("worker"));
  let isDone = false;
  const others = askMeanwhile(world, callers[0] ?? {}, () => isDone, Number.POSITIVE_INFINITY);
  let bytes = 0;
  const times = await Promise.all(
    callers.map(async (caller) => {
      const startedMs = performance.now();
      bytes = await download(world, caller, format);
      return performance.now() - startedMs;
    }),
  );
  isDone = true;
  times.sort((a, b) => a - b);
  const row = report({
    format: format.name,
    "at once": callers.length,
    times,
    bytes,
    memory: memory.stop(),
    quiet: await others,
  });
  return { ...row, "list p99 ms before": percentile(before, 0.99) };
}

type Measured = {
  format: string;
  "at once": number;
  times: number[];
  bytes: number;
  memory: Memory;
  quiet: number[];
};

function report({ times, bytes, memory, quiet, ...name }: Measured): Row {
  const row = {
    bench: "export",
    ...name,
    "p50 ms": percentile(times, 0.5),
    "max ms": percentile(times, 1),
    "size kB": Math.round(bytes / 1024),
    "worker MB before": memory.before,
    "worker MB peak": memory.peak,
    "rise MB": memory.peak - memory.before,
    "list p99 ms meanwhile": quiet.length > 0 ? percentile(quiet, 0.99) : "",
  };
  console.log(JSON.stringify(row));
  return row;
}

async function download(world: World, caller: Headers, { format, accept }: Format): Promise<number> {
  const response = await fetch(`${world.baseUrl}/v1/transactions/export`, {
    method: "POST",
    headers: { ...caller, accept, "content-type": "application/json" },
    body: JSON.stringify({ format }),
  });
  const bytes = (await response.arrayBuffer()).byteLength;
  if (response.status !== 200 || response.headers.get("x-export-total") !== String(ROWS))
    throw new Error(`export answered ${response.status} with ${response.headers.get("x-export-total")} rows`);
  return bytes;
}

/** Times of list requests, one after another, until told or until `most`. */
async function askMeanwhile(
  world: World,
  caller: Headers,
  isDone: () => boolean,
  most: number,
): Promise<number[]> {
  const times: number[] = [];
  while (!isDone() && times.length < most) {
    const startedMs = performance.now();
    await (await fetch(`${world.baseUrl}/v1/transactions?limit=50`, { headers: caller })).text();
    times.push(performance.now() - startedMs);
    await Bun.sleep(PAUSE_MS);
  }
  return times.sort((a, b) => a - b);
}

type Memory = { before: number; peak: number };

/** Resident megabytes of a process, sampled. */
function watchMemory(pid: number) {
  const before = residentMegabytes(pid);
  let peak = before;
  const timer = setInterval(() => {
    peak = Math.max(peak, residentMegabytes(pid));
  }, SAMPLE_EVERY_MS);
  return {
    stop: (): Memory => {
      clearInterval(timer);
      return { before, peak: Math.max(peak, residentMegabytes(pid)) };
    },
  };
}

function residentMegabytes(pid: number): number {
  const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return Math.round(Number(kilobytes) / 1024);
}

async function signIn(baseUrl: string, email: string): Promise<Headers> {
  const response = await fetch(`${baseUrl}/v1/test/token`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ email }),
  });
  const token = /"(?:accessToken|token)":"([^"]+)"/.exec(await response.text())?.[1];
  if (!token) throw new Error(`no test token for ${email}`);
  return { authorization: `Bearer ${token}`, "x-test-mode": "true" };
}
