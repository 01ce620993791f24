/** Random filters over a history too large to be read row by row, compared with a filter in memory: cells, dates, amounts and texts together. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { ServiceError } from "../../core/domain/errors.ts";
import { newUserId } from "../../core/domain/ids.ts";
import { NETWORK_IDS, type NetworkId } from "../../core/domain/networks.ts";
import {
  TRANSACTION_STATUSES,
  TRANSACTION_TYPES,
  type TransactionStatus,
  type TransactionType,
} from "../../core/domain/payment.ts";
import { NO_FILTER, type TransactionFilter } from "../../core/domain/transaction.ts";
import { insertUser } from "../../db/accounts/users.ts";
import { foldTransactionCounts } from "../../db/jobs/fold-count-deltas.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { listTransactions } from "../../db/transactions/transactions.ts";
import { roundsOf } from "../support/depth.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { seededRandom } from "../support/seeded-random.ts";

type Row = {
  id: string;
  type: TransactionType;
  status: TransactionStatus;
  network: NetworkId;
  units: number;
  text: string;
  txHash: string;
  detectedMs: number;
};

/** 100,940 of them are settled: a large history. */
const ROWS = 103_000;
const LIMIT = 20;
const FILTERS = roundsOf({ few: 80, many: 200 });
const NUMBERS = roundsOf({ few: 60, many: 150 });
const NEWEST_MS = Date.UTC(2026, 5, 1);
/** Between two rows: 200 days in all. Three rows each are of one instant. */
const STEP_MS = 172_000;
let db: TestDatabase;
let sql: Sql;
let userId: string;
/** The whole history, in the order of its pages. */
let rows: Row[];

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 2 });
  userId = newUserId();
  await insertUser(sql, { id: userId, email: "random@example.com" });
  // n counts from the newest; a third costs 5 or 25 USDC, one in 50 is PENDING, one in 3,000 is saffron, one in ten has two numbers
  await sql.begin(async (tx) => {
    // slow beside much other work
    await tx`set local statement_timeout = 0`;
    await tx`
      insert into transactions
        (id, owner, network, type, status, amount_units, counterparty, description, tx_hash, detected_at)
      select
        'txn_' || lpad(n::text, 22, '0'), owner_key(${userId}),
        case when n % 5 = 0 then 'base-sepolia' else 'base' end,
        case when n % 7 < 4 then 'PAYMENT_LINK' when n % 7 < 6 then 'RECEIVE' else 'SEND' end,
        case
          when n % 50 = 11 then 'PENDING' when n % 50 = 12 then 'FAILED' when n % 50 = 13 then 'DETECTED'
          when n % 50 = 14 then 'ORPHANED' else 'CONFIRMED'
        end,
        case when n % 6 = 0 then 5000000 when n % 6 = 1 then 25000000 else 10000 + n * 7919 % 90000000 end,
        ${`0x${"ab".repeat(20)}`},
        case when n % 3000 = 11 then 'Saffron ' || n when n % 10 = 0 then 'Coffee ' || n
          when n % 10 = 3 then 'No. ' || lpad((n * 7919::bigint % 100000000)::text, 8, '0') || '-' || n else '' end,
        bytes_of('0x' || lpad(to_hex(n), 64, '0')),
        ${new Date(NEWEST_MS)}::timestamptz - (n + 2 - n % 3) * ${STEP_MS}::float8 * interval '1 millisecond'
      from generate_series(1, ${ROWS}::int) n`;
  });
  await sql.begin((tx) => foldTransactionCounts(tx, 1_000_000));
  await sql`analyze`;
  rows = await readRows();
}, 120_000);
afterAll(async () => {
  await sql?.end({ timeout: 1 });
  await db?.drop();
});

async function readRows(): Promise<Row[]> {
  const read = await sql<Row[]>`
    select
      id, type, status, network, amount_units::float8 as units, lower(description) as text, hex_of(tx_hash) as tx_hash,
      extract(epoch from detected_at)::float8 * 1000 as detected_ms
    from transactions
    where owner = owner_key(${userId})
    order by detected_at desc, id desc`;
  return [...read];
}

function randomFilter(random: () => number): TransactionFilter {
  const pick = <Value>(values: readonly Value[]) => values[Math.floor(random() * values.length)] as Value;
  const some = <Value>(values: readonly Value[]) =>
    random() < 0.5 ? [] : values.filter(() => random() < 0.5);
  const moment = () => new Date(NEWEST_MS - Math.floor(random() * ROWS) * STEP_MS);
  const amount = () =>
    pick([5_000_000n, 24_999_999n, 25_000_000n, BigInt(Math.floor(random() * 95_000_000))]);
  return {
    ...NO_FILTER,
    types: some(TRANSACTION_TYPES),
    statuses: some(TRANSACTION_STATUSES),
    networks: some(NETWORK_IDS),
    from: random() < 0.25 ? moment() : undefined,
    before: random() < 0.25 ? moment() : undefined,
    minUnits: random() < 0.4 ? amount() : undefined,
    maxUnits: random() < 0.3 ? amount() : undefined,
    search: random() < 0.4 ? pick(["coffee", "SAFFRON", "affron 6", "0x0000", "nothing"]) : undefined,
  };
}

/** Of a row's description, or nearly: some digits of its numbers, and what separates them. */
function randomNumber(random: () => number): string {
  const numbered = rows.filter(({ text }) => text.startsWith("no. "));
  const text = numbered[Math.floor(random() * numbered.length)]?.text.slice(4) ?? "";
  const start = Math.floor(random() * (text.length - 4));
  const part = text.slice(start, start + 4 + Math.floor(random() * 6));
  return random() < 0.2 ? part.replace(/.$/, "0") : part;
}

/** The same filter in memory. */
function choose(filter: TransactionFilter): Row[] {
  const { types, statuses, networks, search } = filter;
  const [fromMs, beforeMs] = [filter.from?.getTime() ?? 0, filter.before?.getTime() ?? NEWEST_MS];
  const [min, max] = [Number(filter.minUnits ?? 0n), Number(filter.maxUnits ?? Number.MAX_SAFE_INTEGER)];
  const word = search?.toLowerCase();
  const isFound = ({ text, txHash }: Row, asked: string) =>
    text.includes(asked) || (asked.startsWith("0x") && txHash.startsWith(asked));
  return rows.filter(
    (row) =>
      (types.length === 0 || types.includes(row.type)) &&
      (statuses.length === 0 || statuses.includes(row.status)) &&
      (networks.length === 0 || networks.includes(row.network)) &&
      row.detectedMs >= fromMs &&
      row.detectedMs < beforeMs &&
      row.units >= min &&
      row.units <= max &&
      (word === undefined || isFound(row, word)),
  );
}

function isRefused(error: unknown): boolean {
  return error instanceof ServiceError && /^too_(broad|deep)$/.test(error.details?.issue ?? "");
}

test(`pages and totals equal those of a filter in memory for ${FILTERS} random filters and offsets`, async () => {
  const random = seededRandom("filters of a large history");
  let answered = 0;
  for (let n = 0; n < FILTERS; n++) {
    const filter = randomFilter(random);
    const offset = random() < 0.5 ? 0 : Math.floor(10 ** (random() * 5));
    const page = await sql
      .begin("isolation level repeatable read read only", (tx) =>
        listTransactions(tx, userId, filter, { limit: LIMIT, offset }),
      )
      .catch((error: unknown) => {
        if (isRefused(error)) return undefined;
        throw error;
      });
    if (!page) continue;
    answered++;
    const chosen = choose(filter);
    const ids = page.rows.map(({ id }) => id);
    const expected = chosen.slice(offset, offset + LIMIT).map(({ id }) => id);
    expect({ filter, offset, ids }).toEqual({ filter, offset, ids: expected });
    const total = chosen.length;
    expect(page.isLowerBound ? Math.min(page.total, total) : total).toBe(page.total);
  }
  expect(answered).toBeGreaterThan(FILTERS / 2);
}, 120_000);

test(`pages and totals equal those of a filter in memory for ${NUMBERS} random numbers`, async () => {
  const random = seededRandom("numbers of a large history");
  let answered = 0;
  for (let n = 0; n < NUMBERS; n++) {
    const filter = { ...(n % 2 ? randomFilter(random) : NO_FILTER), search: randomNumber(random) };
    const page = await sql
      .begin("isolation level repeatable read read only", (tx) =>
        listTransactions(tx, userId, filter, { limit: LIMIT, offset: 0 }),
      )
      .catch((error: unknown) => {
        if (isRefused(error)) return undefined;
        throw error;
      });
    if (!page) continue;
    answered++;
    const chosen = choose(filter);
    const ids = page.rows.map(({ id }) => id);
    expect({ filter, ids }).toEqual({ filter, ids: chosen.slice(0, LIMIT).map(({ id }) => id) });
    expect(page.isLowerBound ? Math.min(page.total, chosen.length) : chosen.length).toBe(page.total);
  }
  expect(answered).toBeGreaterThan(NUMBERS / 2);
}, 120_000);

test("a total by amount adds a few hundred counters, however many prices there are", async () => {
  const filter = { ...NO_FILTER, types: ["SEND" as const], minUnits: 15_432_100n };
  const page = { limit: LIMIT, offset: 0 };
  const { total, entries } = await sql.begin("isolation level repeatable read read only", async (tx) => {
    const count = async () => {
      const [row] = await tx<{ entries: number }[]>`
        select sum(pg_stat_get_xact_tuples_returned(indexrelid))::float8 as entries
        from pg_index
        where indrelid::regclass::text in ('transaction_amount_counts', 'transaction_wide_amount_counts')`;
      return row?.entries ?? 0;
    };
    const before = await count();
    const { total } = await listTransactions(tx, userId, filter, page);
    return { total, entries: (await count()) - before };
  });
  expect(total).toBe(choose(filter).length);
  // of 3,000 buckets: one hundred at the bound for each of eight cells and for all together, and nine wide ones for each
  expect(entries).toBeLessThan(9 * (100 + 9));
});
