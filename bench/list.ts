/**
 * Lists of one large merchant among 1,000, through HTTP, at growing sizes (filled-database.ts). Every request differs; one request at a
 * time, so times are latencies. The cases take turns, so that other load on the machine affects all of them alike.
 * Next to the times is the CPU time of the API and its Postgres connections per request (Linux): nearly its duration on an idle
 * machine.
 */
import { openDatabase } from "../db/postgres/client.ts";
import { startTestChain } from "../tests/support/chain.ts";
import { startTestMailbox } from "../tests/support/mailbox.ts";
import { startService } from "../tests/support/world.ts";
import { cpuMilliseconds } from "./cpu-time.ts";
import { openFilled, SIZES, signIn } from "./filled-database.ts";
import { describeMachine, percentile, printTable } from "./report.ts";

const REQUESTS = Number(process.env.BENCH_REQUESTS ?? 300);
const WARM_UP = 20;
const LARGE_MERCHANT = 1;

type Row = Record<string, string | number>;
type Path = (random: () => number, size: number) => string;

const pick = <Value>(random: () => number, values: readonly Value[]) =>
  values[Math.floor(random() * values.length)] as Value;
const between = (random: () => number, low: number, high: number) => low + random() * (high - low);
const daysAgo = (days: number) => new Date(Date.now() - days * 86_400_000).toISOString();
const dollars = (value: number) => value.toFixed(6);
const list = (query: string) => `/v1/transactions?${query}`;
const hex = (random: () => number, digits: number) =>
  Array.from({ length: digits }, () => Math.floor(random() * 16).toString(16)).join("");

/** Requests, by the name of their row. */
const CASES: Record<string, Path> = {
  "no list: current user": () => "/v1/auth/me",
  "first page": () => list("limit=50"),
  "one type": (random) => list(`types=${pick(random, ["SEND", "RECEIVE", "PAYMENT_LINK"])}`),
  "one status": (random) =>
    list(`statuses=${pick(random, ["CONFIRMED", "FAILED", "DETECTED", "ORPHANED", "PENDING"])}`),
  "one network": (random) => list(`networks=${pick(random, ["base", "base-sepolia"])}`),
  currency: () => list("currencies=USDC"),
  "types and statuses": (random) =>
    list(
      `types=SEND,RECEIVE&statuses=${pick(random, ["FAILED,ORPHANED", "CONFIRMED,PENDING"])}&networks=base`,
    ),
  dateFrom: (random) => list(`dateFrom=${daysAgo(between(random, 1, 1_000))}`),
  "dateFrom and dateTo": (random) => {
    const from = between(random, 30, 1_000);
    return list(`dateFrom=${daysAgo(from)}&dateTo=${daysAgo(from - between(random, 0.1, 29))}`);
  },
  amountMin: (random) => list(`amountMin=${dollars(10 ** between(random, -2, 3))}`),
  amountMax: (random) => list(`amountMax=${dollars(10 ** between(random, -1.9, 3))}`),
  "amountMin and amountMax": (random) => {
    const min = 10 ** between(random, -2, 3);
    return list(`amountMin=${dollars(min)}&amountMax=${dollars(min * between(random, 1, 1.5))}`);
  },
  "one price": (random) => {
    const price = pick(random, ["5", "9.99", "10", "25", "49.9", "100", "123.456789"]);
    return list(`amountMin=${price}&amountMax=${price}`);
  },
  "search: common word": (random) =>
    list(`search=${pick(random, ["coffee", "invoice", "order", "plan", "ticket", "repair"])}`),
  "search: rare words": (random) => list(`search=${pick(random, ["rush", "delivery", "rush deliv"])}`),
  "search: a number": (random) => list(`search=${Math.floor(between(random, 100_000, 999_999))}`),
  "search: hash": (random) => list(`search=0x${hex(random, Math.floor(between(random, 6, 12)))}`),
  "search: nothing there": (random) => list(`search=qzx${hex(random, 6)}`),
  "deep offset": (random, size) => list(`offset=${Math.floor(random() * size)}`),
  "deep offset, one type": (random, size) => list(`types=SEND&offset=${Math.floor(random() * size * 0.1)}`),
  "links: first page": () => "/v1/payment-links?limit=20",
  "links: one status": (random) =>
    `/v1/payment-links?status=${pick(random, ["ACTIVE", "PENDING", "PAID", "EXPIRED", "CANCELLED"])}`,
  "links: statistics": () => "/v1/payment-links/stats",
};

export async function run(): Promise<void> {
  console.log(JSON.stringify({ bench: "list", machine: describeMachine(), requests: REQUESTS }));
  const rows: Row[] = Object.keys(CASES).map((name) => ({ case: name }));
  for (const size of SIZES) await measureSize(size, rows);
  const [first, last] = [SIZES[0], SIZES.at(-1)];
  if (first !== undefined && last !== first)
    for (const row of rows)
      row["ratio of CPU p50"] = (
        Number(row[`${last} CPU p50 ms`]) / Number(row[`${first} CPU p50 ms`])
      ).toFixed(1);
  printTable(rows);
}

async function measureSize(size: number, rows: Row[]): Promise<void> {
  const db = await openFilled("list", size);
  const [chain, mailbox] = await Promise.all([startTestChain(), startTestMailbox()]);
  const env = { NODE_ENV: "test", LOG_LEVEL: "warn", RATE_LIMITS: "0", TEST_MODE: "1" };
  const service = await startService({ db, chain, smtp: mailbox, env });
  try {
    const headers = await signIn(service.baseUrl, LARGE_MERCHANT);
    const findPids = async () => [service.pidOf("api"), ...(await connectionsOf(db.url))];
    const times = await measureInTurns({ baseUrl: service.baseUrl, headers, findPids, size });
    for (const [index, [name, { wall, cpu }]] of Object.entries(times).entries()) {
      const row = {
        "p50 ms": percentile(wall, 0.5),
        "p99 ms": percentile(wall, 0.99),
        "CPU p50 ms": percentile(cpu, 0.5),
        "CPU p99 ms": percentile(cpu, 0.99),
      };
      console.log(JSON.stringify({ bench: "list", rows: size, case: name, ...row }));
      for (const [column, value] of Object.entries(row))
        Object.assign(rows[index] ?? {}, { [`${size} ${column}`]: value });
    }
  } finally {
    await service.stop();
    await Promise.all([chain.stop(), mailbox.stop(), db.drop()]);
  }
}

/** Server processes of the API's connections; none when Postgres is not on this machine. */
async function connectionsOf(databaseUrl: string): Promise<number[]> {
  const sql = openDatabase(databaseUrl, { name: "bench", maxConnections: 1 });
  const rows = await sql<{ pid: number }[]>`
    select pid from pg_stat_activity where datname = current_database() and application_name = 'api'`;
  await sql.end({ timeout: 1 });
  return rows.map(({ pid }) => pid);
}

type Asked = {
  baseUrl: string;
  headers: Record<string, string>;
  findPids: () => Promise<number[]>;
  size: number;
};
type Times = { wall: number[]; cpu: number[] };

/** Sorted milliseconds by case, in the order of CASES. */
async function measureInTurns({ baseUrl, headers, findPids, size }: Asked): Promise<Record<string, Times>> {
  const names = Object.keys(CASES);
  const times: Record<string, Times> = Object.fromEntries(names.map((name) => [name, { wall: [], cpu: [] }]));
  let pids: number[] = [];
  for (let n = 0; n < WARM_UP + REQUESTS; n++) {
    if (n === WARM_UP) pids = await findPids();
    for (const [name, path] of Object.entries(CASES)) {
      const url = `${baseUrl}${path(Math.random, size)}`;
      const cpuBefore = cpuMilliseconds(pids);
      const ms = await measureRequest(url, headers);
      const cpuMs = cpuMilliseconds(pids) - cpuBefore;
      if (n < WARM_UP) continue;
      times[name]?.wall.push(ms);
      times[name]?.cpu.push(cpuMs);
    }
  }
  for (const { wall, cpu } of Object.values(times))
    for (const list of [wall, cpu]) list.sort((a, b) => a - b);
  return times;
}

async function measureRequest(url: string, headers: Record<string, string>): Promise<number> {
  const startedMs = performance.now();
  const response = await fetch(url, { headers });
  const text = await response.text();
  if (response.status !== 200) throw new Error(`${url}: ${response.status} ${text}`);
  return performance.now() - startedMs;
}
