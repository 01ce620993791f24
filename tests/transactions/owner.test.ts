/** The history names its user by a uuid alone: it must stand for one id, and every user's id must have one. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { newUserId } from "../../core/domain/ids.ts";
import { insertUser } from "../../db/accounts/users.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";

let db: TestDatabase;
let sql: Sql;
beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 2 });
}, 120_000);
afterAll(async () => {
  await sql?.end({ timeout: 1 });
  await db?.drop();
});

test("owner_key and user_of are inverse for every id that a user gets", async () => {
  const ids = Array.from({ length: 200 }, newUserId);
  const rows = await sql<{ id: string; owner: string; user: string }[]>`
    select id, owner_key(id) as owner, user_of(owner_key(id)) as user
    from unnest(${ids}::text[]) as id`;
  expect(rows.map(({ owner }) => `user_${owner}`)).toEqual(ids);
  expect(rows.map(({ user }) => user)).toEqual(ids);
});

test("error: no user has another id with the same uuid", async () => {
  const id = newUserId();
  await insertUser(sql, { id, email: "one@example.com" });
  const uuid = id.slice("user_".length);
  for (const other of [`user_${uuid.toUpperCase()}`, `user_${uuid.replaceAll("-", "")}`, `abcd_${uuid}`])
    await expect(insertUser(sql, { id: other, email: `${other.toLowerCase()}@example.com` })).rejects.toThrow(
      "users_id_check",
    );
});

test("error: a history row without its user is refused", async () => {
  await expect(sql`
    insert into transactions (id, network, type, status, amount_units, counterparty, detected_at)
    values ('txn_nobody', 'base', 'RECEIVE', 'CONFIRMED', 1, ${`0x${"ab".repeat(20)}`}, now())`).rejects.toThrow(
    'null value in column "owner"',
  );
});
