/**
 * Exports of 10,000 rows through HTTP, worker and database, out of histories of growing size (filled-database.ts): time from request
 * to last byte, the worker's memory and CPU per export, and the effect of eight concurrent exports on both and on other requests. Memory is the
 * resident set of the worker process (Linux). `bun run bench export --beside 7 json,csv` measures only that effect, in the larger history, over
 * seven rounds: requests before the exports and during them.
 */
import { loadavg } from "node:os";
import type { Sql } from "../db/postgres/client.ts";
import { startTestChain } from "../tests/support/chain.ts";
import { startTestMailbox } from "../tests/support/mailbox.ts";
import { type Service, startService } from "../tests/support/world.ts";
import { cpuMilliseconds } from "./cpu-time.ts";
import { emailOf, openFilled, SIZES, signIn } from "./filled-database.ts";
import { describeMachine, percentile, printTable, round } from "./report.ts";
import { type Memory, watchMemory } from "./resident-memory.ts";
import { insertHistory } from "./seed-history.ts";

const ROWS = 10_000;
/** Of those, the confirmed movements, which a spreadsheet lists. */
const MOVEMENTS_MIN = 9_000;
const MERCHANTS = 8;
const REPEATS = 7;
const QUIET_REQUESTS = 200;
/** Between two list requests: simulates other users, not a load test. */
const PAUSE_MS = 20;
const FORMATS = [
  { name: "csv", format: "csv", accept: "*/*" },
  { name: "json", format: "json", accept: "*/*" },
  { name: "text", format: "pdf", accept: "*/*" },
  { name: "pdf", format: "pdf", accept: "application/pdf" },
  { name: "xlsx", format: "xlsx", accept: "*/*" },
] as const;
type Format = (typeof FORMATS)[number];
type Row = Record<string, string | number>;
type Headers = Record<string, string>;

export async function run(): Promise<void> {
  console.log(JSON.stringify({ bench: "export", machine: describeMachine(), rows: ROWS }));
  if (process.argv[3] === "--beside") return runBeside(process.argv.slice(4));
  const rows: Row[] = [];
  for (const size of SIZES) rows.push(...(await measureSize(size)));
  printTable(rows);
}

async function runBeside([
  rounds = "7",
  list = FORMATS.map(({ name }) => name).join(","),
]: string[]): Promise<void> {
  const names = list.split(",");
  const formats = FORMATS.filter(({ name }) => names.includes(name));
  if (formats.length !== names.length)
    throw new Error(`--beside takes rounds and formats, such as 7 json,csv`);
  printTable(
    await withService(Math.max(...SIZES), async (bench) => {
      for (const format of formats) await download(bench.service, bench.callers[0] ?? {}, format);
      const rows: Row[] = [];
      for (const format of formats) rows.push(await measureBeside(bench, format, Number(rounds)));
      return rows;
    }),
  );
}

/** Requests of all rounds together, since the slowest hundredth of one round is two or three requests. */
async function measureBeside(bench: Bench, format: Format, rounds: number): Promise<Row> {
  const before: number[] = [];
  const during: number[] = [];
  const files: number[] = [];
  const ratios: number[] = [];
  for (let n = 0; n < rounds; n++) {
    const quiet = await askMeanwhile(bench.service, bench.callers[0] ?? {}, () => false, QUIET_REQUESTS);
    const { times, meanwhile } = await exportTogether(bench, format);
    before.push(...quiet);
    during.push(...meanwhile);
    files.push(times.at(-1) ?? 0);
    ratios.push(percentile(meanwhile, 0.99) / percentile(quiet, 0.99));
  }
  for (const sorted of [before, during, files]) sorted.sort((a, b) => a - b);
  const [p99Before, p99During] = [percentile(before, 0.99), percentile(during, 0.99)];
  const row = {
    bench: "export",
    "rows in history": bench.size,
    format: format.name,
    rounds,
    "p50 ms before": percentile(before, 0.5),
    "p99 before": p99Before,
    "p50 during": percentile(during, 0.5),
    "p95 during": percentile(during, 0.95),
    "p99 during": p99During,
    "ratio of p99": round(p99During / p99Before),
    "of each round": ratios.map(round).join(", "),
    "all eight ms": percentile(files, 0.5),
    load: round(loadavg()[0] ?? 0),
  };
  console.log(JSON.stringify(row));
  return row;
}

function measureSize(size: number): Promise<Row[]> {
  return withService(size, async (bench) => {
    const rows: Row[] = [];
    for (const format of FORMATS) rows.push(await measureOne(bench, format));
    for (const format of FORMATS) rows.push(await measureTogether(bench, format));
    return rows;
  });
}

async function withService(size: number, measure: (bench: Bench) => Promise<Row[]>): Promise<Row[]> {
  const db = await openFilled("export", size, giveOthersAHistory);
  const [chain, mailbox] = await Promise.all([startTestChain(), startTestMailbox()]);
  const env = {
    ...{ NODE_ENV: "test", LOG_LEVEL: "warn", RATE_LIMITS: "0", TEST_MODE: "1" },
    // the last byte, without a time limit
    EXPORT_WAIT_MS: "60000",
  };
  const service = await startService({ db, chain, smtp: mailbox, env });
  try {
    const merchants = Array.from({ length: MERCHANTS }, (_, n) => n + 1);
    const callers = await Promise.all(merchants.map((merchant) => signIn(service.baseUrl, merchant)));
    return await measure({ service, callers, size });
  } finally {
    await service.stop();
    await Promise.all([chain.stop(), mailbox.stop(), db.drop()]);
  }
}

/** ROWS rows for each merchant that exports besides the large one. */
async function giveOthersAHistory(sql: Sql): Promise<void> {
  for (let merchant = 2; merchant <= MERCHANTS; merchant++) {
    const [user] = await sql<{ id: string; rows: bigint }[]>`
      select id, (select count(*) from transactions where owner = owner_key(users.id)) as rows
      from users
      where email = ${emailOf(merchant)}`;
    if (!user) throw new Error(`there is no ${emailOf(merchant)}`);
    if (user.rows < ROWS)
      await insertHistory(sql, { userId: user.id, prefix: `txn_more${merchant}`, rows: ROWS });
  }
  await sql`analyze transactions`;
}

type Bench = { service: Service; callers: readonly Headers[]; size: number };

async function measureOne({ service, callers: [caller = {}], size }: Bench, format: Format): Promise<Row> {
  await download(service, caller, format);
  const memory = watchMemory(service.pidOf("worker"));
  const cpuMs = cpuMilliseconds([service.pidOf("worker")]);
  const times: number[] = [];
  let bytes = 0;
  for (let n = 0; n < REPEATS; n++) {
    const startedMs = performance.now();
    bytes = await download(service, caller, format);
    times.push(performance.now() - startedMs);
  }
  times.sort((a, b) => a - b);
  return report({
    "rows in history": size,
    format: format.name,
    "at once": 1,
    times,
    bytes,
    cpuMs: cpuMilliseconds([service.pidOf("worker")]) - cpuMs,
    memory: memory.stop(),
    quiet: [],
  });
}

async function measureTogether(bench: Bench, format: Format): Promise<Row> {
  const { service, callers, size } = bench;
  const before = await askMeanwhile(service, callers[0] ?? {}, () => false, QUIET_REQUESTS);
  const memory = watchMemory(service.pidOf("worker"));
  const cpuMs = cpuMilliseconds([service.pidOf("worker")]);
  const { times, meanwhile, bytes } = await exportTogether(bench, format);
  const row = report({
    "rows in history": size,
    format: format.name,
    "at once": callers.length,
    times,
    bytes,
    cpuMs: cpuMilliseconds([service.pidOf("worker")]) - cpuMs,
    memory: memory.stop(),
    quiet: meanwhile,
  });
  return {
    ...row,
    "list p50 ms before": percentile(before, 0.5),
    "list p99 ms before": percentile(before, 0.99),
  };
}

/** All merchants at once, with the list requested meanwhile. Sorted times in ms. */
async function exportTogether({ service, callers }: Bench, format: Format) {
  let isDone = false;
  const others = askMeanwhile(service, callers[0] ?? {}, () => isDone, Number.POSITIVE_INFINITY);
  let bytes = 0;
  const times = await Promise.all(
    callers.map(async (caller) => {
      const startedMs = performance.now();
      bytes = await download(service, caller, format);
      return performance.now() - startedMs;
    }),
  );
  isDone = true;
  return { times: times.sort((a, b) => a - b), meanwhile: await others, bytes };
}

type Measured = {
  "rows in history": number;
  format: string;
  "at once": number;
  times: number[];
  bytes: number;
  /** Of the worker, for all of them. */
  cpuMs: number;
  memory: Memory;
  quiet: number[];
};

function report({ times, bytes, cpuMs, memory, quiet, ...name }: Measured): Row {
  const row = {
    bench: "export",
    ...name,
    "p50 ms": percentile(times, 0.5),
    "max ms": percentile(times, 1),
    "size kB": Math.round(bytes / 1024),
    "worker CPU ms": Math.round(cpuMs / times.length),
    "worker MB before": memory.before,
    "worker MB peak": memory.peak,
    "rise MB": memory.peak - memory.before,
    "list p50 ms during": quiet.length > 0 ? percentile(quiet, 0.5) : "",
    "list p99 ms during": quiet.length > 0 ? percentile(quiet, 0.99) : "",
    "list p50 ms before": "",
    "list p99 ms before": "",
  };
  console.log(JSON.stringify(row));
  return row;
}

async function download(service: Service, caller: Headers, { format, accept }: Format): Promise<number> {
  const response = await fetch(`${service.baseUrl}/v1/transactions/export`, {
    method: "POST",
    headers: { ...caller, accept, "content-type": "application/json" },
    body: JSON.stringify({ format }),
  });
  const bytes = (await response.arrayBuffer()).byteLength;
  const total = Number(response.headers.get("x-export-total"));
  if (response.status !== 200 || total < (format === "xlsx" ? MOVEMENTS_MIN : ROWS))
    throw new Error(`export answered ${response.status} with ${total} rows`);
  return bytes;
}

/** Times of sequential list requests, until `isDone` or `most` of them. */
async function askMeanwhile(
  service: Service,
  caller: Headers,
  isDone: () => boolean,
  most: number,
): Promise<number[]> {
  const times: number[] = [];
  while (!isDone() && times.length < most) {
    const startedMs = performance.now();
    await (await fetch(`${service.baseUrl}/v1/transactions?limit=50`, { headers: caller })).text();
    times.push(performance.now() - startedMs);
    await Bun.sleep(PAUSE_MS);
  }
  return times.sort((a, b) => a - b);
}
