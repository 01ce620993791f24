/**
 * Statements of a wallet with a million movements (or as many as named), through HTTP, worker and database: of the last month, of the
 * last days that hold as many movements as a statement may, and of everything, which is refused. Time is from request to last byte; the
 * opening balance adds up everything before. Memory is the resident set of the worker process (Linux).
 */
import { STATEMENT_ROWS_MAX } from "../core/domain/statement.ts";
import type { Sql } from "../db/postgres/client.ts";
import { startTestChain } from "../tests/support/chain.ts";
import { startTestMailbox } from "../tests/support/mailbox.ts";
import { type Service, startService } from "../tests/support/world.ts";
import { cpuMilliseconds } from "./cpu-time.ts";
import { emailOf, openFilled, signIn } from "./filled-database.ts";
import { describeMachine, percentile, printTable } from "./report.ts";
import { watchMemory } from "./resident-memory.ts";
import { countDays, insertMovements, withoutIndexes } from "./seed-history.ts";

const NETWORK = "base-sepolia";
const MERCHANT = 2;
const MOVEMENTS = Number(process.argv[3] ?? 1_000_000);
const OTHER_ROWS = 10_000;
const MONTH = { days: 30, repeats: 3 };
const DAY_MS = 86_400_000;
/** Movements are spread evenly over so many days. */
const SPREAD_DAYS = 1_095;
/** The longest statement allowed, with room for a day in progress. */
const LONGEST = { days: Math.floor((STATEMENT_ROWS_MAX / MOVEMENTS) * SPREAD_DAYS) - 1, repeats: 1 };
const FORMATS = ["csv", "json", "xlsx", "pdf"] as const;
type Format = (typeof FORMATS)[number];
type Row = Record<string, string | number>;

export async function run(): Promise<void> {
  console.log(JSON.stringify({ bench: "statement", machine: describeMachine(), movements: MOVEMENTS }));
  const db = await openFilled("statement", OTHER_ROWS, addMovements);
  const [chain, mailbox] = await Promise.all([startTestChain(), startTestMailbox()]);
  const env = {
    ...{ NODE_ENV: "test", LOG_LEVEL: "warn", RATE_LIMITS: "0", TEST_MODE: "1" },
    EXPORT_WAIT_MS: "60000",
  };
  const service = await startService({ db, chain, smtp: mailbox, env });
  try {
    const caller = await signIn(service.baseUrl, MERCHANT);
    const rows: Row[] = [];
    for (const format of FORMATS) await ask(service, { caller, days: 1, format });
    for (const { days, repeats } of [MONTH, LONGEST])
      for (const format of FORMATS) rows.push(await measure(service, { caller, days, format }, repeats));
    printTable(rows);
    for (const format of FORMATS) await showRefusal(service, { caller, days: SPREAD_DAYS, format });
  } finally {
    await service.stop();
    await Promise.all([chain.stop(), mailbox.stop(), db.drop()]);
  }
}

async function addMovements(sql: Sql): Promise<void> {
  const [user] = await sql<{ id: string; rows: bigint }[]>`
    select id, (select count(*) from transactions where owner = owner_key(users.id)) as rows
    from users
    where email = ${emailOf(MERCHANT)}`;
  if (!user) throw new Error(`there is no ${emailOf(MERCHANT)}`);
  if (user.rows >= MOVEMENTS) return;
  // an unconfirmed movement would end the statement before it
  await sql`delete from transactions where owner = owner_key(${user.id})`;
  await sql`delete from transaction_counts where user_id = ${user.id}`;
  await sql`delete from transaction_count_deltas where user_id = ${user.id}`;
  await withoutIndexes(
    sql,
    ["transactions"],
    () => {},
    () => insertMovements(sql, { userId: user.id, network: NETWORK, rows: MOVEMENTS, days: SPREAD_DAYS }),
  );
  await countDays(sql, user.id);
  await sql`analyze transactions`;
}

type Asked = { caller: Record<string, string>; days: number; format: Format };

async function measure(service: Service, asked: Asked, repeats: number): Promise<Row> {
  const worker = service.pidOf("worker");
  const memory = watchMemory(worker);
  const cpuMs = cpuMilliseconds([worker]);
  const times: number[] = [];
  let bytes = 0;
  let movements = 0;
  for (let n = 0; n < repeats; n++) {
    const startedMs = performance.now();
    const response = await ask(service, asked);
    bytes = (await response.arrayBuffer()).byteLength;
    times.push(performance.now() - startedMs);
    movements = Number(response.headers.get("x-export-total"));
    if (response.status !== 200) throw new Error(`a statement answered ${response.status}`);
  }
  const { before, peak } = memory.stop();
  times.sort((a, b) => a - b);
  const row = {
    ...{ bench: "statement", days: asked.days, movements, format: asked.format },
    ...{ "p50 ms": percentile(times, 0.5), "max ms": percentile(times, 1) },
    "size kB": Math.round(bytes / 1024),
    "worker CPU ms": Math.round((cpuMilliseconds([worker]) - cpuMs) / repeats),
    ...{ "worker MB before": before, "worker MB peak": peak, "rise MB": peak - before },
  };
  console.log(JSON.stringify(row));
  return row;
}

async function showRefusal(service: Service, asked: Asked): Promise<void> {
  const startedMs = performance.now();
  const response = await ask(service, asked);
  const ms = Math.round(performance.now() - startedMs);
  console.log(
    JSON.stringify({
      ...{ format: asked.format, status: response.status, ms },
      answer: await response.text(),
    }),
  );
}

function ask({ baseUrl }: Service, { caller, days, format }: Asked): Promise<Response> {
  const day = (ms: number) => new Date(ms).toISOString().slice(0, 10);
  const period = { dateFrom: day(Date.now() - days * DAY_MS), dateTo: day(Date.now()) };
  return fetch(`${baseUrl}/v1/statements`, {
    method: "POST",
    headers: { ...caller, "content-type": "application/json" },
    body: JSON.stringify({ format, network: NETWORK, timeZone: "Europe/Berlin", ...period }),
  });
}
