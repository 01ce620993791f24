/** A history row carries the reference of its link, also when it is given another link or none later. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { type SeededMerchant, seedLink, seedMerchant } from "../support/seed.ts";

let db: TestDatabase;
let sql: Sql;
let ann: SeededMerchant;
beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 2 });
  ann = await seedMerchant(sql);
}, 120_000);
afterAll(async () => {
  await sql?.end({ timeout: 5 });
  await db?.drop();
});

async function linkOf(reference: string | null): Promise<string> {
  const id = await seedLink(sql, ann);
  await sql`update payment_links set reference = ${reference} where id = ${id}`;
  return id;
}

async function insertRow(id: string, linkId: string | null): Promise<string> {
  await sql`
    insert into transactions (id, owner, network, type, status, amount_units, counterparty, link_id, detected_at)
    values (${id}, owner_key(${ann.userId}), ${ann.network}, 'RECEIVE', 'CONFIRMED', 5, ${ann.address}, ${linkId}, now())`;
  return id;
}

const referenceOf = async (id: string) =>
  (await sql<{ reference: string | null }[]>`select reference from transactions where id = ${id}`)[0]
    ?.reference;

test("a history row has the reference of the link it is created with", async () => {
  expect(await referenceOf(await insertRow("txn_made", await linkOf("ORD-1")))).toBe("ORD-1");
  expect(await referenceOf(await insertRow("txn_plain", null))).toBeNull();
});

test("a history row has the reference of a link it gets later, and none without one", async () => {
  const id = await insertRow("txn_moved", await linkOf("ORD-2"));
  const other = await insertRow("txn_other", await linkOf("ORD-3"));
  const [later, bare] = [await linkOf("ORD-4"), await linkOf(null)];
  await sql`update transactions set link_id = ${later}, updated_at = now() where id = ${id}`;
  expect(await referenceOf(id)).toBe("ORD-4");
  await sql`update transactions set link_id = ${bare} where id = ${id}`;
  expect(await referenceOf(id)).toBeNull();
  await sql`update transactions set link_id = ${later} where id = ${id}`;
  await sql`update transactions set link_id = null where id = ${id}`;
  expect(await referenceOf(id)).toBeNull();
  expect(await referenceOf(other)).toBe("ORD-3");
});

test("several history rows of one statement have their references", async () => {
  const ids = await Promise.all(["txn_a", "txn_b", "txn_c"].map((id) => insertRow(id, null)));
  const links = await Promise.all(["ORD-A", "ORD-B", "ORD-C"].map(linkOf));
  await sql`
    update transactions
    set link_id = given.link_id
    from unnest(${ids}::text[], ${links}::text[]) as given (id, link_id)
    where transactions.id = given.id`;
  expect(await Promise.all(ids.map(referenceOf))).toEqual(["ORD-A", "ORD-B", "ORD-C"]);
});
