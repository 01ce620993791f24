import { afterAll, beforeAll, expect, test } from "bun:test";
import { seedWallets } from "../../bench/indexer-process.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { countJoinedWallets, findFollowedSince, readJoinedWallets } from "../../db/ledger/watched-wallets.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";

const WALLETS = 6_000;

let db: TestDatabase;
let sql: Sql;
beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 2 });
  const seeding = openDatabase(db.url, { name: "seeding", maxConnections: 1 });
  await seedWallets(seeding, { receivers: 0, others: WALLETS });
  await seeding.end();
});
afterAll(async () => {
  await sql.end();
  await db.drop();
});

test("every wallet that has joined is read once, even while their rows move on disk", async () => {
  await sql`update wallets set indexed_from = null where id like 'wal_1__'`;
  const rows = await sql<{ address: string }[]>`
    select address
    from wallets
    where indexed_from is not null`;
  let lines = "";
  let pages = 0;
  await sql.begin("isolation level repeatable read read only", async (tx) => {
    expect(await countJoinedWallets(tx, "base-sepolia")).toBe(WALLETS - 100);
    for await (const page of readJoinedWallets(tx, "base-sepolia")) {
      lines += page;
      pages++;
      await sql`update wallets set backfilled_at = now() where id like ${`wal_${pages}%`}`;
    }
  });
  expect(pages).toBeGreaterThan(1);
  expect(lines.endsWith("\n")).toBe(true);
  const read = lines.trimEnd().split("\n").sort();
  expect(read).toEqual(rows.map((row) => row.address).sort());
});

test("a wallet is followed from the block it joined at, a back-filled one from the first, an unjoined one not at all", async () => {
  const [joined, backfilled, unjoined] = await sql<{ id: string; address: Hex }[]>`
    update wallets
    set
      indexed_from = case when id <> 'wal_3003' then 50 end, backfilled_at = case when id = 'wal_3002' then now() end
    where id in ('wal_3001', 'wal_3002', 'wal_3003')
    returning id, address`.then((rows) => rows.toSorted((one, other) => (one.id < other.id ? -1 : 1)));
  if (!joined || !backfilled || !unjoined) throw new Error("the wallets are not there");
  const addresses = [joined.address, backfilled.address, unjoined.address];
  expect(await findFollowedSince(sql, "base-sepolia", addresses)).toEqual(
    new Map([
      [joined.address, 50],
      [backfilled.address, 0],
    ]),
  );
  expect(await findFollowedSince(sql, "base", addresses)).toEqual(new Map());
});
