/**
 * Lists of one large merchant among 1,000, through HTTP, at growing sizes: BENCH_ROWS (default 10000,1000000; 10000000 takes ten
 * minutes to fill and 12 GB). Every request asks something else; one request at a time, so times are latencies.
 * BENCH_DATABASE_URL measures a database an earlier run filled, or fills it: with BENCH_ROWS of that one size.
 */
import { openDatabase } from "../db/client.ts";
import { migrate } from "../db/migrate.ts";
import { startTestChain } from "../tests/support/chain.ts";
import { startTestMailbox } from "../tests/support/mailbox.ts";
import { createTestDatabase } from "../tests/support/postgres.ts";
import { startService } from "../tests/support/world.ts";
import { describeMachine, percentile, printTable } from "./report.ts";
import { seedHistory } from "./seed-history.ts";

const SIZES = (process.env.BENCH_ROWS ?? "10000,1000000").split(",").map(Number);
const REQUESTS = Number(process.env.BENCH_REQUESTS ?? 300);
const WARM_UP = 20;
const EMAIL = "merchant1@seed.example";

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

/** What is asked, by the name it has in the table. */
const CASES: Record<string, Path> = {
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
      row["ratio p50"] = (Number(row[`${last} p50 ms`]) / Number(row[`${first} p50 ms`])).toFixed(1);
  printTable(rows);
}

async function measureSize(size: number, rows: Row[]): Promise<void> {
  const db = await openFilled(size);
  const [chain, mailbox] = await Promise.all([startTestChain(), startTestMailbox()]);
  const env = { NODE_ENV: "test", LOG_LEVEL: "warn", RATE_LIMITS: "0", TEST_MODE: "1" };
  const service = await startService({ db, chain, smtp: mailbox, env });
  try {
    const headers = await signIn(service.baseUrl);
    for (const [index, [name, path]] of Object.entries(CASES).entries()) {
      const times = await measureCase(service.baseUrl, headers, (random) => path(random, size));
      const [p50, p99] = [percentile(times, 0.5), percentile(times, 0.99)];
      console.log(JSON.stringify({ bench: "list", rows: size, case: name, "p50 ms": p50, "p99 ms": p99 }));
      Object.assign(rows[index] ?? {}, { [`${size} p50 ms`]: p50, [`${size} p99 ms`]: p99 });
    }
  } finally {
    await service.stop();
    await Promise.all([chain.stop(), mailbox.stop(), db.drop()]);
  }
}

async function openFilled(size: number): Promise<{ url: string; drop: () => Promise<void> }> {
  const given = process.env.BENCH_DATABASE_URL;
  const db = given ? { url: given, drop: async () => {} } : await createTestDatabase();
  await migrate(db.url);
  const sql = openDatabase(db.url, { name: "bench", maxConnections: 2 });
  const startedMs = Date.now();
  const [known] = await sql`select 1 from users where email = ${EMAIL}`;
  if (!known) await seedHistory(sql, { transactions: size, links: Math.max(10_000, size / 10) });
  const [disk] = await sql<{ bytes: bigint }[]>`select pg_database_size(current_database()) as bytes`;
  await sql.end({ timeout: 1 });
  const seconds = Math.round((Date.now() - startedMs) / 1000);
  console.log(
    JSON.stringify({ bench: "list", rows: size, seconds, megabytes: Number((disk?.bytes ?? 0n) >> 20n) }),
  );
  return db;
}

async function measureCase(
  baseUrl: string,
  headers: Record<string, string>,
  path: (random: () => number) => string,
) {
  const times: number[] = [];
  for (let n = 0; n < WARM_UP + REQUESTS; n++) {
    const startedMs = performance.now();
    const response = await fetch(`${baseUrl}${path(Math.random)}`, { headers });
    const text = await response.text();
    if (response.status !== 200) throw new Error(`${response.status} ${text}`);
    if (n >= WARM_UP) times.push(performance.now() - startedMs);
  }
  return times.sort((a, b) => a - b);
}

async function signIn(baseUrl: string): Promise<Record<string, string>> {
  const response = await fetch(`${baseUrl}/v1/test/token`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ email: EMAIL }),
  });
  const text = await response.text();
  const token = /"(?:accessToken|token)":"([^"]+)"/.exec(text)?.[1];
  if (!token) throw new Error(`no test token: ${text}`);
  return { authorization: `Bearer ${token}`, "x-test-mode": "true" };
}
