/** The job that moves links past their expiry: all of a backlog, in batches, each link with its event, and no other link. */
import { afterAll, beforeAll, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { expireDueLinks } from "../../worker/links/expire-links-job.ts";
import { createTestDatabase, TEST_POOL, type TestDatabase } from "../support/postgres.ts";
import { type SeededMerchant, seedLink, seedLinks, seedMerchant } from "../support/seed.ts";

setDefaultTimeout(120_000);
const BATCH = 1_000;
const LAPSED = { expiresInS: -1 };
let db: TestDatabase;
let sql: Sql;
let merchant: SeededMerchant;

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { ...TEST_POOL, maxConnections: 4 });
});
beforeEach(async () => {
  merchant = await seedMerchant(sql);
});
afterAll(async () => {
  await sql?.end({ timeout: 5 });
  await db?.drop();
});

const statusOf = async (id: string) => {
  const [row] = await sql<{ status: string }[]>`select status from payment_links where id = ${id}`;
  return row?.status;
};
const eventsOf = async ({ userId }: SeededMerchant) => {
  const rows = await sql<{ subjectId: string }[]>`
    select subject_id from events where user_id = ${userId} and type = 'payment_link.expired'`;
  return rows.map(({ subjectId }) => subjectId).sort();
};

test.each([1, BATCH, BATCH + 1, 2 * BATCH])(
  "of %d links past their expiry one run expires all",
  async (count) => {
    const ids = await seedLinks(sql, merchant, { count, ...LAPSED });
    expect(await expireDueLinks(sql)).toBe(count);
    expect(await eventsOf(merchant)).toEqual(ids.toSorted());
    const left = await sql`
    select from payment_links where user_id = ${merchant.userId} and status <> 'EXPIRED'`;
    expect(left).toHaveLength(0);
    expect(await expireDueLinks(sql)).toBe(0);
    expect(await eventsOf(merchant)).toHaveLength(count);
  },
);

test("a link before its expiry and one that has ended otherwise stay as they are", async () => {
  const open = await seedLink(sql, merchant);
  const ended: string[] = [];
  for (const status of ["CANCELLED", "PAID"]) {
    const id = await seedLink(sql, merchant, LAPSED);
    await sql`
      update payment_links set status = ${status}, paid_at = ${status === "PAID" ? new Date() : null} where id = ${id}`;
    ended.push(id);
  }
  expect(await expireDueLinks(sql)).toBe(0);
  expect([await statusOf(open), ...(await Promise.all(ended.map(statusOf)))]).toEqual([
    "ACTIVE",
    "CANCELLED",
    "PAID",
  ]);
  expect(await eventsOf(merchant)).toEqual([]);
});

test("links of both networks expire in one run", async () => {
  const other = await seedMerchant(sql, { network: "base" });
  const links = [await seedLink(sql, merchant, LAPSED), await seedLink(sql, other, LAPSED)];
  expect(await expireDueLinks(sql)).toBe(2);
  expect(await Promise.all(links.map(statusOf))).toEqual(["EXPIRED", "EXPIRED"]);
  expect([await eventsOf(merchant), await eventsOf(other)]).toEqual([[links[0]], [links[1]]] as string[][]);
});
