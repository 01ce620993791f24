/** A history too large to be searched row by row: totals must be true and pages exact. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { invalid, ServiceError } from "../../core/domain/errors.ts";
import { newUserId } from "../../core/domain/ids.ts";
import { NO_FILTER, type TransactionFilter } from "../../core/domain/transaction.ts";
import { insertUser } from "../../db/accounts/users.ts";
import { openDatabase, type Sql, type Tx } from "../../db/postgres/client.ts";
import { readInTime } from "../../db/postgres/statement-timeout.ts";
import { listTransactions } from "../../db/transactions/transactions.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { waitFor } from "../support/relay-lab.ts";

const ROWS = 120_000;
let db: TestDatabase;
let sql: Sql;
let userId: string;

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 4 });
  userId = newUserId();
  await insertUser(sql, { id: userId, email: "large@example.com" });
  // n counts from the newest, 1; every tenth is coffee, every third of the others milk, every 20,000th saffron, the oldest 500 are tea, and one is of an
  // order
  await sql.begin(async (tx) => {
    await tx`set local statement_timeout = 0`;
    await tx`
      insert into transactions
        (id, owner, network, type, status, amount_units, counterparty, reference, description, tx_hash, detected_at)
      select
        'txn_' || lpad(n::text, 22, '0'), owner_key(${userId}), 'base', 'RECEIVE', 'CONFIRMED', n, ${`0x${"ab".repeat(20)}`},
        case when n = 55555 then 'PO-0012345678/99' end,
        case
          when n % 20000 = 7 then 'Saffron ' || n
          when n = 33333 then 'Café ÜBERWEISUNG платёж Ωmega'
          when n > ${ROWS - 500}::int then 'Tea ' || n
          when n % 10 = 0 then 'Coffee ' || n
          when n % 3 = 0 then 'Milk'
          else ''
        end,
        bytes_of('0x' || lpad(to_hex(n), 64, '0')), timestamptz '2026-06-01' - n * interval '1 minute'
      from generate_series(1, ${ROWS}::int) n`;
  });
  await sql`analyze transactions`;
}, 120_000);
afterAll(async () => {
  await sql?.end({ timeout: 1 });
  await db?.drop();
});

/** The exact answer; on a busy machine a search may be refused as too slow at first. */
async function listInTime(...wanted: Parameters<typeof list>) {
  return waitFor("the search to end in time", () =>
    list(...wanted).catch((error: unknown) => {
      if (isTooBroad(error)) return undefined;
      throw error;
    }),
  );
}

function isTooBroad(error: unknown): boolean {
  return error instanceof ServiceError && error.details?.issue === "too_broad";
}

async function list(filter: Partial<TransactionFilter>, offset = 0, limit = 50) {
  const page = await sql.begin("isolation level repeatable read read only", (tx) =>
    listTransactions(tx, userId, { ...NO_FILTER, ...filter }, { limit, offset }),
  );
  return { ...page, ns: page.rows.map((row) => Number(row.amountUnits)) };
}

test("types, dates and amounts each give exact totals", async () => {
  expect(await list({ types: ["RECEIVE"] })).toMatchObject({ total: ROWS, isLowerBound: false });
  expect((await list({ minUnits: 77n, maxUnits: 99_999n })).total).toBe(99_923);
  const from = new Date(Date.UTC(2026, 5, 1) - 100_000 * 60_000);
  expect((await list({ from })).total).toBe(100_000);
  expect((await list({}, 119_990)).ns).toEqual([
    119_991, 119_992, 119_993, 119_994, 119_995, 119_996, 119_997, 119_998, 119_999, 120_000,
  ]);
});

/** In the order of the list, `n` counts from the newest. */
const rowAt = (n: number) => ({
  id: `txn_${String(n).padStart(22, "0")}`,
  micros: BigInt(Date.UTC(2026, 5, 1) - n * 60_000) * 1_000n,
});
const dayAt = (n: number) => new Date(Date.UTC(2026, 5, 1) - n * 60_000);
const one = { types: ["RECEIVE"], statuses: ["CONFIRMED"] } as const;

test.each<[string, Partial<TransactionFilter>, number, number[]]>([
  ["many amounts", { minUnits: 77n, maxUnits: 99_999n }, 50_000, [50_001, 50_002, 50_003]],
  ["few amounts", { minUnits: 119_990n }, 119_995, [119_996, 119_997, 119_998]],
  ["many amounts of one kind", { ...one, minUnits: 77n }, 50_000, [50_001, 50_002, 50_003]],
  ["few amounts of one kind", { ...one, minUnits: 119_990n }, 119_995, [119_996, 119_997, 119_998]],
  [
    "few amounts between dates",
    { minUnits: 119_990n, before: dayAt(9) },
    119_995,
    [119_996, 119_997, 119_998],
  ],
  ["amounts of few dates", { minUnits: 77n, from: dayAt(990) }, 987, [988, 989, 990]],
  ["a common word", { search: "coffee" }, 60_000, [60_010, 60_020, 60_030]],
  ["a rare word", { search: "saffron" }, 60_007, [80_007, 100_007]],
  ["a word of few dates", { search: "o", from: dayAt(990) }, 960, [970, 980, 990]],
])("behind a cursor a page of %s begins with the next row", async (_, filter, n, expected) => {
  const page = { limit: 3, offset: 0, after: rowAt(n) };
  const found = await waitFor("the search to end in time", () =>
    sql
      .begin("isolation level repeatable read read only", (tx) =>
        listTransactions(tx, userId, { ...NO_FILTER, ...filter }, page),
      )
      .catch((error: unknown) => {
        if (isTooBroad(error)) return undefined;
        throw error;
      }),
  );
  expect(found.rows.map(({ amountUnits }) => Number(amountUnits))).toEqual(expected);
});

test.each(["CAFÉ", "überweisung", "ПЛАТЁЖ", "ωMEGA"])(
  "accented, Cyrillic and Greek letters in any case: %s",
  async (search) => {
    for (const filter of [{ search }, { search, minUnits: 33_333n, maxUnits: 33_333n }])
      expect((await list(filter)).ns).toEqual([33_333]);
  },
);

test("distant pages by amount continue where the previous page ended", async () => {
  for (const offset of [0, 99, 101, 499, 500, 20_000]) {
    const { ns, total } = await list({ minUnits: 1_001n, maxUnits: 110_000n }, offset, 3);
    expect(total).toBe(109_000);
    expect(ns).toEqual([1_001 + offset, 1_002 + offset, 1_003 + offset]);
  }
  expect((await list({ minUnits: 1_001n, maxUnits: 110_000n }, 120_000)).ns).toEqual([]);
});

test("error: a page that takes too long to read is refused, and its connection stays usable", async () => {
  const one = openDatabase(db.url, { name: "test", maxConnections: 1 });
  const read = one.begin((tx) =>
    readInTime(
      tx,
      () => tx`select pg_sleep(20)`,
      () => invalid("offset", "too_deep"),
    ),
  );
  await expect(read).rejects.toMatchObject({ details: { field: "offset", issue: "too_deep" } });
  expect([...(await one`select current_setting('statement_timeout') as left`)]).toEqual([{ left: "30s" }]);
  await one.end();
});

test("a common word returns the newest rows, and a total marked as a lower bound", async () => {
  const { ns, total, isLowerBound } = await list({ search: "coffee" });
  expect(ns).toEqual(Array.from({ length: 50 }, (_, index) => (index + 1) * 10));
  expect(isLowerBound).toBe(true);
  expect(total).toBeGreaterThan(50);
  expect(total).toBeLessThanOrEqual(ROWS / 10);
});

test("further pages of a common word continue where the first ended", async () => {
  for (const offset of [50, 1_900, 5_000, 11_000]) {
    const { ns } = await list({ search: "COFFEE" }, offset, 20);
    expect(ns).toEqual(Array.from({ length: 20 }, (_, index) => (offset + index + 1) * 10));
  }
  expect(await list({ search: "coffee" }, 11_950, 100)).toMatchObject({
    rows: [],
    total: 11_950,
    isLowerBound: false,
  });
});

test("a rare word, old rows, a hash and no match give exact totals", async () => {
  expect(await listInTime({ search: "saffron" })).toMatchObject({
    total: 6,
    isLowerBound: false,
    ns: [7, 20_007, 40_007, 60_007, 80_007, 100_007],
  });
  expect(await listInTime({ search: "saffron" }, 4)).toMatchObject({ total: 6, ns: [80_007, 100_007] });
  expect(await listInTime({ search: "Tea 119" }, 0, 10)).toMatchObject({ total: 499, isLowerBound: false });
  const hash = `0x${(4_242).toString(16).padStart(64, "0")}`;
  expect(await listInTime({ search: hash })).toMatchObject({ total: 1, ns: [4_242] });
  expect(await listInTime({ search: "nothing at all" })).toMatchObject({
    total: 0,
    rows: [],
    isLowerBound: false,
  });
});

test("a search with other filters, and amounts between dates, give correct pages", async () => {
  const before = new Date(Date.UTC(2026, 5, 1) - 60_000 * 60_000);
  expect(await listInTime({ search: "saffron", before })).toMatchObject({
    total: 3,
    ns: [60_007, 80_007, 100_007],
  });
  expect(await listInTime({ search: "saffron", minUnits: 20_007n, maxUnits: 40_007n })).toMatchObject({
    total: 2,
  });
  expect(await listInTime({ search: "coffee", types: ["SEND"] })).toMatchObject({ total: 0 });
  expect(await listInTime({ before, minUnits: 70_000n, maxUnits: 70_009n })).toMatchObject({
    total: 10,
    isLowerBound: false,
  });
});

test("error: a short search is refused immediately if neither the newest rows nor dates or amounts answer it", async () => {
  const refusal = { details: { field: "search", issue: "too_broad" } };
  for (const search of ["qx", "%", "q x"]) await expect(list({ search })).rejects.toMatchObject(refusal);
  // frequent among the newest rows, long enough to be looked up, or bounded
  expect((await list({ search: "co" })).ns[0]).toBe(10);
  expect(await list({ search: "qxz" })).toMatchObject({ total: 0 });
  expect(await list({ search: "qx", from: new Date(Date.UTC(2026, 4, 31)) })).toMatchObject({ total: 0 });
  expect(await list({ search: "qx", minUnits: 1n, maxUnits: 500n })).toMatchObject({ total: 0 });
});

/** Entries of the table's indexes that a list reads. */
async function countRead(tx: Tx, read: () => Promise<unknown>): Promise<number> {
  const count = async () => {
    const [row] = await tx<{ entries: number }[]>`
      select coalesce(sum(pg_stat_get_xact_tuples_returned(indexrelid)), 0)::float8 as entries
      from pg_index
      where indrelid = 'transactions'::regclass`;
    return row?.entries ?? 0;
  };
  // the counters of a connection also hold what its last transactions read and has not been reported yet
  const before = await count();
  await read();
  return (await count()) - before;
}

test("a list by amount reads no more rows than have such an amount, wherever they are in the history", async () => {
  await sql.begin("isolation level repeatable read read only", async (tx) => {
    const read = async (filter: Partial<TransactionFilter>) => {
      const page = { limit: 50, offset: 0 };
      const { rows } = await listTransactions(tx, userId, { ...NO_FILTER, ...filter }, page);
      return rows.map((row) => Number(row.amountUnits));
    };
    const oldest = Array.from({ length: 50 }, (_, index) => 110_001 + index);
    for (const types of [[], ["RECEIVE" as const]]) {
      let found: number[] = [];
      // 10,000 rows, the oldest ones: counted, looked for among the newest 5,000, then read
      const entries = await countRead(tx, async () => {
        found = await read({ minUnits: 110_001n, types });
      });
      expect(found).toEqual(oldest);
      expect(entries).toBeLessThan(25_000);
    }
    // there is none
    for (const statuses of [["PENDING" as const], ["PENDING" as const, "FAILED" as const]])
      expect(await countRead(tx, () => read({ minUnits: 100n, statuses }))).toBeLessThan(6_000);
  });
});

test("amounts between dates that the newest rows lack are searched for further down, before reading every match", async () => {
  await sql.begin("isolation level repeatable read read only", async (tx) => {
    const filter = { ...NO_FILTER, minUnits: 815n, before: new Date(Date.UTC(2026, 5, 2)) };
    let found: Awaited<ReturnType<typeof listTransactions>> | undefined;
    // the page reaches to the 450th; by the counters 680 of the newest rows have that many, or 1,360
    const entries = await countRead(tx, async () => {
      found = await listTransactions(tx, userId, filter, { limit: 50, offset: 400 });
    });
    const ns = found?.rows.map((row) => Number(row.amountUnits));
    expect(ns).toEqual(Array.from({ length: 50 }, (_, index) => 1_215 + index));
    expect(entries).toBeLessThan(10_000);
  });
});

test("a search for a text that no new row contains reads 500 of those and the matching rows", async () => {
  await sql.begin("isolation level repeatable read read only", async (tx) => {
    const page = { limit: 50, offset: 0 };
    const read = () => listTransactions(tx, userId, { ...NO_FILTER, search: "Tea 1195" }, page);
    // 99 of the oldest rows, named by the trigram index and read once, and 50 again by their keys
    expect(await countRead(tx, read)).toBeLessThan(500 + 99 + 50 + 50);
  });
});

test.each([
  ["119990", [119_990]],
  ["11999", Array.from({ length: 10 }, (_, index) => 119_990 + index)],
  ["19990", [19_990, 119_990]],
  ["00007", [100_007]],
  ["0012345678", [55_555]],
  ["23456", [55_555]],
  ["1234567899", []],
  ["912345", []],
])("a number is found within others, in descriptions and references: %s", async (search, ns) => {
  expect(await listInTime({ search })).toMatchObject({ ns, total: ns.length, isLowerBound: false });
});

test("a number of five digits is looked up in the index of numbers, not by the trigrams of its digits", async () => {
  await sql.begin("isolation level repeatable read read only", async (tx) => {
    const scans = async () => {
      const rows = await tx<{ name: string; scans: number }[]>`
        select name, pg_stat_get_xact_numscans(name::regclass)::float8 as scans
        from unnest(array['transactions_numbered', 'transactions_described', 'transactions_reference']) name`;
      return rows.map((row) => row.scans);
    };
    const before = await scans();
    await listTransactions(tx, userId, { ...NO_FILTER, search: "119990" }, { limit: 50, offset: 0 });
    expect((await scans()).map((count, index) => count - (before[index] ?? 0))).toEqual([1, 0, 0]);
  });
});

test("a search among PENDING rows is answered, whatever the text", async () => {
  const statuses: TransactionFilter["statuses"] = ["PENDING"];
  for (const search of ["qx", "milk"])
    expect(await list({ search, statuses })).toMatchObject({ total: 0, rows: [], isLowerBound: false });
});

/** Entries read before the search was refused as too broad. */
function rowsReadUntilRefused(filter: Partial<TransactionFilter>, offset = 0): Promise<number> {
  return sql.begin("isolation level repeatable read read only", (tx) =>
    countRead(tx, async () => {
      const page = { limit: 50, offset };
      await expect(listTransactions(tx, userId, { ...NO_FILTER, ...filter }, page)).rejects.toMatchObject({
        details: { field: "search", issue: "too_broad" },
      });
    }),
  );
}

test("error: a search for which every index would read more than 25,000 rows is refused before reading them", async () => {
  // 36,000 rows of milk, and 12,000 of coffee
  const types: TransactionFilter["types"] = ["SEND"];
  expect(await rowsReadUntilRefused({ search: "milk", types })).toBeLessThan(25_000);
  expect(await rowsReadUntilRefused({ search: "milk" }, 20_000)).toBeLessThan(25_000);
  expect(await listInTime({ search: "coffee", types })).toMatchObject({ total: 0, isLowerBound: false });
  // few enough rows between dates, or amounts
  const minutesAgo = (minutes: number) => new Date(Date.UTC(2026, 5, 1) - minutes * 60_000);
  expect(await listInTime({ search: "milk", types, from: minutesAgo(25_000) })).toMatchObject({ total: 0 });
  expect(await listInTime({ search: "milk", types, minUnits: 115_001n })).toMatchObject({ total: 0 });
  for (const filter of [{ from: minutesAgo(25_001) }, { minUnits: 115_000n }])
    await rowsReadUntilRefused({ search: "milk", types, ...filter });
});

test("a page of a list by amount reads up to 25,000 rows, and is refused if it would read one more", async () => {
  const refusal = { details: { field: "offset", issue: "too_deep" } };
  expect((await list({ minUnits: 1n }, 24_998, 2)).ns).toEqual([24_999, 25_000]);
  await expect(list({ minUnits: 1n }, 24_999, 2)).rejects.toMatchObject(refusal);
  // the last page of the 25,000 rows with these amounts
  expect((await list({ minUnits: 95_001n }, 24_998, 2)).ns).toEqual([119_999, 120_000]);
  await expect(list({ minUnits: 95_000n }, 24_998, 2)).rejects.toMatchObject(refusal);
});
