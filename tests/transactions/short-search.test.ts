/** What a search reads: the searcher's rows, however many others there are. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { newUserId } from "../../core/domain/ids.ts";
import { NO_FILTER } from "../../core/domain/transaction.ts";
import { insertUser } from "../../db/accounts/users.ts";
import { openDatabase, type Sql, type Tx } from "../../db/postgres/client.ts";
import { listTransactions } from "../../db/transactions/transactions.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";

const OWN_ROWS = 9_000;
const OTHER_ROWS = 60_000;
let db: TestDatabase;
let sql: Sql;
let userId: string;

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 2 });
  userId = await insertMerchant("own", OWN_ROWS);
  await insertMerchant("other", OTHER_ROWS);
  await sql`analyze transactions`;
}, 120_000);
afterAll(async () => {
  await sql?.end({ timeout: 1 });
  await db?.drop();
});

async function insertMerchant(name: string, rows: number): Promise<string> {
  const id = newUserId();
  await insertUser(sql, { id, email: `${name}@example.com` });
  await sql`
    insert into transactions (
      id, owner, network, type, status, amount_units, counterparty, description, reference, tx_hash, detected_at
    )
    select
      ${`txn_${name}`} || n, owner_key(${id}), 'base', 'RECEIVE', 'CONFIRMED', n, ${`0x${"ab".repeat(20)}`}, 'Coffee ' || n,
      'order ' || n, bytes_of('0x' || lpad(to_hex(n), 64, '0')), timestamptz '2026-06-01' - n * interval '1 minute'
    from generate_series(1, ${rows}::int) n`;
  return id;
}

/** A page, and how many rows of the table were read for it and its total. */
async function search(text: string) {
  return sql.begin("isolation level repeatable read read only", async (tx) => {
    const before = await countRead(tx);
    const { total } = await listTransactions(
      tx,
      userId,
      { ...NO_FILTER, search: text },
      { limit: 50, offset: 0 },
    );
    return { total, rows: (await countRead(tx)) - before };
  });
}

/** Entries of the table's indexes that scans returned: a bitmap scan of another user's rows counts although no row of theirs is fetched. */
async function countRead(tx: Tx): Promise<number> {
  const [read] = await tx<{ rows: bigint }[]>`
    select coalesce(sum(pg_stat_get_xact_tuples_returned(indexrelid)), 0)::bigint as rows
    from pg_index
    where indrelid = 'transactions'::regclass`;
  return Number(read?.rows ?? 0n);
}

test.each([
  ["c", OWN_ROWS],
  ["fe", OWN_ROWS],
  ["e 1", 1_111],
  ["qx", 0],
  ["%", 0],
])("a search for %s reads only the searcher's rows", async (text, total) => {
  const found = await search(text);
  expect(found.total).toBe(total);
  // once for the total, at most once more for the page
  expect(found.rows).toBeLessThanOrEqual(2 * OWN_ROWS);
});

test("a search for a rare word reads the rows that contain it, not the searcher's history", async () => {
  const found = await search("fee 8999");
  expect(found.total).toBe(1);
  expect(found.rows).toBeLessThan(OWN_ROWS);
});
