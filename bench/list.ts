/**
 * `bun run bench list`, and `bun run bench list pairs` for every two filters together.
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
const WARM_UP = Number(process.env.BENCH_WARM_UP ?? 20);
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

/** Requests by row name. */
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
  summary: () => "/v1/transactions/summary",
  "summary: dates": (random) => {
    const from = between(random, 30, 1_000);
    return `/v1/transactions/summary?dateFrom=${daysAgo(from)}&dateTo=${daysAgo(from - between(random, 1, 29))}`;
  },
  "links: first page": () => "/v1/payment-links?limit=20",
  "links: one status": (random) =>
    `/v1/payment-links?status=${pick(random, ["ACTIVE", "PENDING", "PAID", "EXPIRED", "CANCELLED"])}`,
  "links: statistics": () => "/v1/payment-links/stats",
};

/** One value of each filter, for requests with two of them: `bun run bench list pairs`. */
const FILTERS: Record<string, (random: () => number, size: number) => string> = {
  type: (random) => `types=${pick(random, ["SEND", "RECEIVE", "PAYMENT_LINK"])}`,
  status: (random) => `statuses=${pick(random, ["CONFIRMED", "FAILED", "PENDING"])}`,
  network: (random) => `networks=${pick(random, ["base", "base-sepolia"])}`,
  date: (random) => `dateTo=${daysAgo(between(random, 1, 1_000))}`,
  amount: (random) => `amountMin=${dollars(10 ** between(random, -2, 3))}`,
  "common word": (random) => `search=${pick(random, ["coffee", "invoice", "order", "plan"])}`,
  number: (random) => `search=${Math.floor(between(random, 100_000, 999_999))}`,
  "two letters": (random) => `search=${pick(random, ["co", "zq", "e1"])}`,
  offset: (random, size) => `offset=${Math.floor(random() * size)}`,
};

/** Every two filters that can be combined in one request. */
function pairCases(): Record<string, Path> {
  const names = Object.keys(FILTERS);
  const pairs = names.flatMap((one, index) => names.slice(index + 1).map((other) => [one, other] as const));
  const isSearch = (name: string) => ["common word", "number", "two letters"].includes(name);
  return Object.fromEntries(
    pairs
      .filter(([one, other]) => !(isSearch(one) && isSearch(other)))
      .map(([one, other]) => [
        `${one} + ${other}`,
        (random: () => number, size: number) =>
          list(`${FILTERS[one]?.(random, size)}&${FILTERS[other]?.(random, size)}`),
      ]),
  );
}

/** Chosen by the command's argument. */
const CHOSEN = process.argv[3] === "pairs" ? pairCases() : CASES;

export async function run(): Promise<void> {
  console.log(JSON.stringify({ bench: "list", machine: describeMachine(), requests: REQUESTS }));
  const rows: Row[] = Object.keys(CHOSEN).map((name) => ({ case: name }));
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
    for (const [index, [name, { wall, cpu, refused }]] of Object.entries(times).entries()) {
      const row = {
        "p50 ms": percentile(wall, 0.5),
        "p99 ms": percentile(wall, 0.99),
        "CPU p50 ms": percentile(cpu, 0.5),
        "CPU p99 ms": percentile(cpu, 0.99),
        ...(refused > 0 ? { refused } : {}),
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
/** `refused`: requests that were refused because they would read too much. */
type Times = { wall: number[]; cpu: number[]; refused: number };

/** Sorted milliseconds by case, in the order of the cases. */
async function measureInTurns({ baseUrl, headers, findPids, size }: Asked): Promise<Record<string, Times>> {
  const names = Object.keys(CHOSEN);
  const times: Record<string, Times> = Object.fromEntries(
    names.map((name) => [name, { wall: [], cpu: [], refused: 0 }]),
  );
  let pids: number[] = [];
  for (let n = 0; n < WARM_UP + REQUESTS; n++) {
    if (n === WARM_UP) pids = await findPids();
    for (const [name, path] of Object.entries(CHOSEN)) {
      const url = `${baseUrl}${path(Math.random, size)}`;
      const cpuBefore = cpuMilliseconds(pids);
      const { ms, isRefused } = await measureRequest(url, headers);
      const cpuMs = cpuMilliseconds(pids) - cpuBefore;
      const time = times[name];
      if (n < WARM_UP || !time) continue;
      time.wall.push(ms);
      time.cpu.push(cpuMs);
      if (isRefused) time.refused++;
    }
  }
  for (const { wall, cpu } of Object.values(times))
    for (const list of [wall, cpu]) list.sort((a, b) => a - b);
  return times;
}

async function measureRequest(
  url: string,
  headers: Record<string, string>,
): Promise<{ ms: number; isRefused: boolean }> {
  const startedMs = performance.now();
  const response = await fetch(url, { headers });
  const text = await response.text();
  const isRefused = response.status === 400 && /too_broad|too_deep/.test(text);
  if (response.status !== 200 && !isRefused) throw new Error(`${url}: ${response.status} ${text}`);
  return { ms: performance.now() - startedMs, isRefused };
}
