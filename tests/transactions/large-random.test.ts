/** Random filters over a history too large to be read row by row, compared with plain SQL: cells, dates, amounts and texts together. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { ServiceError } from "../../core/domain/errors.ts";
import { newUserId } from "../../core/domain/ids.ts";
import { NETWORK_IDS } from "../../core/domain/networks.ts";
import { TRANSACTION_STATUSES, TRANSACTION_TYPES } from "../../core/domain/payment.ts";
import { NO_FILTER, type TransactionFilter } from "../../core/domain/transaction.ts";
import { insertUser } from "../../db/accounts/users.ts";
import { foldTransactionCounts } from "../../db/jobs/housekeeping.ts";
import { openDatabase, type Sql, type Tx } from "../../db/postgres/client.ts";
import { listTransactions } from "../../db/transactions/transactions.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { seededRandom } from "../support/seeded-random.ts";

const ROWS = 100_300;
const LIMIT = 20;
const NEWEST_MS = Date.UTC(2026, 5, 1);
/** Between two rows: 200 days in all. Three rows each are of one instant. */
const STEP_MS = 172_000;
let db: TestDatabase;
let sql: Sql;
let userId: string;

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 2 });
  userId = newUserId();
  await insertUser(sql, { id: userId, email: "random@example.com" });
  // n counts from the newest; a third costs 5 or 25 USDC, one in 50 is PENDING, one in 3,000 is saffron
  await sql`
    insert into transactions
      (id, user_id, network, type, status, amount_units, counterparty, description, tx_hash, detected_at)
    select
      'txn_' || lpad(n::text, 22, '0'), ${userId},
      case when n % 5 = 0 then 'base-sepolia' else 'base' end,
      case when n % 7 < 4 then 'PAYMENT_LINK' when n % 7 < 6 then 'RECEIVE' else 'SEND' end,
      case
        when n % 50 = 11 then 'PENDING' when n % 50 = 12 then 'FAILED' when n % 50 = 13 then 'DETECTED'
        when n % 50 = 14 then 'ORPHANED' else 'CONFIRMED'
      end,
      case when n % 6 = 0 then 5000000 when n % 6 = 1 then 25000000 else 10000 + n * 7919 % 90000000 end,
      ${`0x${"ab".repeat(20)}`},
      case when n % 3000 = 11 then 'Saffron ' || n when n % 10 = 0 then 'Coffee ' || n else '' end,
      bytes_of('0x' || lpad(to_hex(n), 64, '0')),
      ${new Date(NEWEST_MS)}::timestamptz - (n + 2 - n % 3) * ${STEP_MS}::float8 * interval '1 millisecond'
    from generate_series(1, ${ROWS}::int) n`;
  await sql.begin((tx) => foldTransactionCounts(tx, 1_000_000));
  await sql`analyze`;
}, 120_000);
afterAll(async () => {
  await sql?.end({ timeout: 1 });
  await db?.drop();
});

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

/** The same filter in plain SQL. */
function chosen(tx: Tx, filter: TransactionFilter) {
  const { types, statuses, networks, search } = filter;
  return tx`
    user_id = ${userId}
    and (${types.length === 0} or type = any(${types as string[]}::text[]))
    and (${statuses.length === 0} or status = any(${statuses as string[]}::text[]))
    and (${networks.length === 0} or network = any(${networks as string[]}::text[]))
    and detected_at >= ${filter.from ?? new Date(0)}
    and detected_at < ${filter.before ?? new Date(NEWEST_MS)}
    and amount_units >= ${(filter.minUnits ?? 0n).toString()}::numeric
    and amount_units <= ${(filter.maxUnits ?? 10n ** 30n).toString()}::numeric
    and (
      ${search ?? ""} = '' or description ilike ${`%${search ?? ""}%`}
      or ${search?.startsWith("0x") ?? false} and starts_with(hex_of(tx_hash), ${search ?? ""})
    )`;
}

function isRefused(error: unknown): boolean {
  return error instanceof ServiceError && /^too_(broad|deep)$/.test(error.details?.issue ?? "");
}

test("pages and totals equal those of plain SQL for 200 random filters and offsets", async () => {
  const random = seededRandom("filters of a large history");
  let answered = 0;
  for (let n = 0; n < 200; n++) {
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
    const [plain] = await sql<{ total: bigint; ids: string[] }[]>`
      with chosen as materialized (
        select id, detected_at
        from transactions
        where ${chosen(sql, filter)}
      )
      select
        (select count(*) from chosen) as total,
        array(select id from chosen order by detected_at desc, id desc limit ${LIMIT} offset ${offset}) as ids`;
    const ids = page.rows.map(({ id }) => id);
    expect({ filter, offset, ids }).toEqual({ filter, offset, ids: plain?.ids ?? [] });
    const total = Number(plain?.total);
    expect(page.isLowerBound ? Math.min(page.total, total) : total).toBe(page.total);
  }
  expect(answered).toBeGreaterThan(100);
}, 120_000);

test("a total by amount adds some hundred counters, however many prices there are", async () => {
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
  const [counted] = await sql<{ total: bigint }[]>`
    select count(*) as total from transactions where ${chosen(sql, filter)}`;
  expect(total).toBe(Number(counted?.total));
  // of 3,000 buckets: one hundred at the bound for each of eight cells and for all together, and nine wide ones for each
  expect(entries).toBeLessThan(9 * (100 + 9));
});
