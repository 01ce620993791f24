/** Opening a use of a reusable link: what its payer may choose, how many there are, and one use an id. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { newLinkId } from "../../core/domain/ids.ts";
import { linkTag } from "../../core/domain/link-tag.ts";
import { openUse } from "../../db/links/uses.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { type SeededMerchant, seedLink, seedLinks, seedMerchant } from "../support/seed.ts";

const [MIN, MAX] = [1_000_000n, 5_000_000n];
let db: TestDatabase;
let sql: Sql;
let merchant: SeededMerchant;

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 4 });
  merchant = await seedMerchant(sql);
});
afterAll(async () => {
  await sql?.end({ timeout: 1 });
  await db?.drop();
});

async function seedReusable({ isOpen = false, maxPayments = null as number | null } = {}): Promise<string> {
  const [id = ""] = await seedLinks(sql, merchant, { isReusable: true, amountUnits: MIN });
  await sql`
    update payment_links
    set min_units = ${isOpen ? MIN : null}, max_units = ${isOpen ? MAX : null}, max_payments = ${maxPayments}
    where id = ${id}`;
  return id;
}

/** The amount of the use that was opened, else why none was. */
async function open(
  parentId: string,
  amountUnits: bigint | undefined,
  id = newLinkId(),
): Promise<bigint | string> {
  const opened = await sql.begin((tx) =>
    openUse(tx, { parentId, id, tag: linkTag(id), amountUnits, opener: "203.0.113.1" }),
  );
  return opened.ok ? opened.link.amountUnits : opened.reason;
}

test.each([
  [MIN, MIN],
  [MAX, MAX],
  [MIN - 10n, "AMOUNT_BELOW_REQUIRED"],
  [MAX + 10n, "AMOUNT_EXCEEDS_MAXIMUM"],
  [MIN + 1n, "AMOUNT_REQUIRED"],
  [undefined, "AMOUNT_REQUIRED"],
])("a payer who may choose and chooses %p gets %p", async (chosen, expected) => {
  expect(await open(await seedReusable({ isOpen: true }), chosen)).toBe(expected);
});

test.each([MIN - 1n, MAX + 1n, undefined])(
  "a fixed amount is used, whatever a payer chooses (%p)",
  async (chosen) => {
    expect(await open(await seedReusable(), chosen)).toBe(MIN);
  },
);

test("as many uses are opened as the link allows, even concurrently", async () => {
  const parentId = await seedReusable({ maxPayments: 2 });
  const opened = await Promise.all(Array.from({ length: 4 }, () => open(parentId, undefined)));
  expect(opened.toSorted()).toEqual([MIN, MIN, "LINK_ALREADY_PAID", "LINK_ALREADY_PAID"]);
});

test("the same id leads to the same use, even when the link has no uses left or has ended", async () => {
  const parentId = await seedReusable({ maxPayments: 1 });
  const id = newLinkId();
  expect(await open(parentId, undefined, id)).toBe(MIN);
  expect(await open(parentId, undefined, id)).toBe(MIN);
  await sql`update payment_links set expires_at = now() where id = ${parentId}`;
  expect(await open(parentId, undefined, id)).toBe(MIN);
  const [row] = await sql`select count(*)::int as uses from payment_links where parent_id = ${parentId}`;
  expect(row).toEqual({ uses: 1 });
});

test.each(["EXPIRED", "CANCELLED"])("a link that is %s opens no use", async (status) => {
  const parentId = await seedReusable();
  await sql`update payment_links set status = ${status} where id = ${parentId}`;
  expect(await open(parentId, undefined)).toBe("LINK_NOT_PAYABLE");
});

test("a link that has expired opens no use, even if no job has moved it to EXPIRED", async () => {
  const parentId = await seedReusable();
  await sql`update payment_links set expires_at = now() where id = ${parentId}`;
  expect(await open(parentId, undefined)).toBe("LINK_NOT_PAYABLE");
});

test("a single-use link has no uses", async () => {
  expect(await open(await seedLink(sql, merchant), undefined)).toBe("NOT_FOUND");
});

test("one address reserves a few unique amounts of a wallet, however many payments it begins, and others still get theirs", async () => {
  const parentId = await seedReusable();
  const reserved = async () => {
    const [row] = await sql<{ amounts: number }[]>`
      select count(*)::int as amounts from payment_links where parent_id = ${parentId} and pay_amount_units is not null`;
    return row?.amounts;
  };
  for (let times = 0; times < 8; times++) await open(parentId, undefined);
  expect(await reserved()).toBe(5);
  const id = newLinkId();
  const given = { parentId, id, tag: linkTag(id), amountUnits: undefined, opener: "203.0.113.2" };
  await sql.begin((tx) => openUse(tx, given));
  expect(await reserved()).toBe(6);
});
