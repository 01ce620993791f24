/** What a payment page and a 402 read of a link that many have paid: its uses only where they are limited. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import { newPaymentId } from "../../core/domain/ids.ts";
import { linkTag } from "../../core/domain/link-tag.ts";
import { NETWORKS } from "../../core/domain/networks.ts";
import { findPayableLinks } from "../../db/links/payable-links.ts";
import { openDatabase, type Sql, type Tx } from "../../db/postgres/client.ts";
import { beginWithinDay } from "../support/begin-within-day.ts";
import { bookTransfer } from "../support/book-transfer.ts";
import { NETWORK, randomHash } from "../support/ledger-lab.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { randomAddress, type SeededMerchant, seedLink, seedLinks, seedMerchant } from "../support/seed.ts";

const USES = 500;
let db: TestDatabase;
let sql: Sql;
let merchant: SeededMerchant;

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 2 });
  merchant = await seedMerchant(sql);
}, 120_000);
beforeEach(beginWithinDay);
afterAll(async () => {
  await sql?.end({ timeout: 1 });
  await db?.drop();
});

async function seedUsedLink(maxPayments: number | null): Promise<string> {
  const [id = ""] = await seedLinks(sql, merchant, { isReusable: true });
  const uses = await seedLinks(sql, merchant, { count: USES });
  await sql`update payment_links set max_payments = ${maxPayments} where id = ${id}`;
  await sql`update payment_links set parent_id = ${id} where id = any(${uses})`;
  await sql`analyze payment_links`;
  return id;
}

async function findPayableLink(tx: Tx, id: string) {
  const [link] = await findPayableLinks(tx, [{ id }]);
  return link;
}

/** Whether the link is used up, and how many entries of links' indexes were read to know it. */
async function read(id: string): Promise<{ isUsedUp: unknown; entries: number }> {
  return sql.begin("isolation level repeatable read read only", async (tx) => {
    // a scan of the whole table has no entries
    await tx`set local enable_seqscan = off`;
    const before = await countEntries(tx);
    const link = await findPayableLink(tx, id);
    return { isUsedUp: link?.isUsedUp, entries: (await countEntries(tx)) - before };
  });
}

async function countEntries(tx: Tx): Promise<number> {
  const [row] = await tx<{ entries: number }[]>`
    select coalesce(sum(pg_stat_get_xact_tuples_returned(indexrelid)), 0)::int as entries
    from pg_index
    where indrelid = 'payment_links'::regclass`;
  return row?.entries ?? 0;
}

test.each([
  ["an endless link is never used up, and its uses are not read", null, false, 0],
  ["a link with room for one more is not used up", USES + 1, false, USES],
  ["a link whose last use is taken is used up", USES, true, USES],
])("%s", async (_title, maxPayments, isUsedUp, uses) => {
  const found = await read(await seedUsedLink(maxPayments));
  expect(found.isUsedUp).toBe(isUsedUp);
  expect(found.entries).toBeGreaterThan(uses);
  expect(found.entries).toBeLessThan(uses + 10);
});

test.each([
  ["PENDING", "1 minute", true],
  // without a payment or a transfer
  ["PENDING", "-1 minute", false],
  ["PAID", "1 minute", true],
  ["PAID", "-1 minute", true],
  ["ACTIVE", "1 minute", true],
  ["ACTIVE", "-1 minute", false],
  ["EXPIRED", "-1 minute", false],
  ["CANCELLED", "1 minute", false],
] as const)(
  "a use that is %s and expires in %s takes its link's last place: %p",
  async (status, expiresIn, isUsedUp) => {
    const [[id = ""], [use = ""]] = [
      await seedLinks(sql, merchant, { isReusable: true }),
      await seedLinks(sql, merchant),
    ];
    await sql`update payment_links set max_payments = 1 where id = ${id}`;
    await sql`
    update payment_links
    set parent_id = ${id}, status = ${status}, expires_at = now() + ${expiresIn}::text::interval,
      paid_at = case when ${status} = 'PAID' then now() end
    where id = ${use}`;
    expect((await findPayableLink(sql, id))?.isUsedUp).toBe(isUsedUp);
  },
);

test.each([
  ["PENDING", true],
  ["EXPIRED", false],
  ["CANCELLED", false],
])(
  "a link that is %s, with a transfer of its amount that does not pay it, is being paid: %p",
  async (status, isPaid) => {
    const linkId = await seedLink(sql, merchant);
    await bookTransfer({ sql, merchant }, { link: linkId });
    await sql`update payment_links set status = ${status} where id = ${linkId}`;
    const link = await findPayableLink(sql, linkId);
    expect((link?.paidTxHash ?? null) !== null).toBe(isPaid);
  },
);

test("a merchant's relay gas is what was used today on its network, of the budget for merchants", async () => {
  const one = await seedMerchant(sql);
  const other = await seedMerchant(sql);
  const budgets = [
    { network: one.network, scope: "MERCHANT", subject: one.userId, daysAgo: 0, used: 7 },
    { network: one.network, scope: "MERCHANT", subject: one.userId, daysAgo: 1, used: 10 },
    { network: one.network, scope: "MERCHANT", subject: other.userId, daysAgo: 0, used: 200 },
    { network: one.network, scope: "REVERTED", subject: one.userId, daysAgo: 0, used: 3_000 },
    { network: "base", scope: "MERCHANT", subject: one.userId, daysAgo: 0, used: 40_000 },
  ];
  for (const { network, scope, subject, daysAgo, used } of budgets)
    await sql`
      insert into relay_budgets (network, scope, subject, day, used)
      values (${network}, ${scope}, ${subject}, (now() at time zone 'utc')::date - ${daysAgo}::int, ${used})`;
  const linkId = await seedLink(sql, one);
  expect(await findPayableLink(sql, linkId)).toMatchObject({ relayGasUsed: 7n });
  await sql`delete from relay_budgets where day = (now() at time zone 'utc')::date`;
  expect(await findPayableLink(sql, linkId)).toMatchObject({ relayGasUsed: 0n });
});

test("a single-use link has no uses to be used up", async () => {
  const found = await read(await seedLink(sql, merchant));
  expect(found.isUsedUp).toBe(false);
  expect(found.entries).toBeLessThan(10);
});

test("links that are read together come in the requested order, each with the link its own nonce names", async () => {
  const [first = "", second = ""] = await seedLinks(sql, merchant, { count: 2 });
  const asked = [
    { id: second, nonceTag: linkTag(first) },
    { id: "link_unknown", nonceTag: linkTag(second) },
    { id: first },
    { id: second, nonceTag: linkTag(second) },
  ];
  const found = await findPayableLinks(sql, asked);
  expect(found.map((link) => link && [link.id, link.taggedLinkId])).toEqual([
    [second, first],
    undefined,
    [first, null],
    [second, second],
  ]);
});

test("an authorization counts as accepted before only for the same token, payer and nonce", async () => {
  const [first = "", second = ""] = await seedLinks(sql, merchant, { count: 2 });
  const shown = { network: NETWORK, payer: randomAddress(), nonce: randomHash() } as const;
  const { network, payer, nonce } = shown;
  await sql`
    insert into payments (
      id, link_id, network, token, payer, payer_kind, recipient, amount_units, valid_after, valid_before, nonce,
      signature, state
    )
    values (
      ${newPaymentId()}, ${first}, ${network}, ${NETWORKS[network].usdc.address}, ${payer}, 'EOA',
      ${merchant.address}, 5, 0, 9, ${nonce}, ''::bytea, 'CONFIRMED'
    )`;
  const found = await findPayableLinks(sql, [
    { id: first, shown },
    { id: second, shown },
    { id: second },
    { id: second, shown: { ...shown, network: "base" as const } },
    { id: second, shown: { ...shown, payer: randomAddress() } },
    { id: second, shown: { ...shown, nonce: randomHash() } },
  ]);
  expect(found.map((link) => link?.acceptedBefore)).toEqual(["HERE", "ELSEWHERE", null, null, null, null]);
});

test.each([
  ["the payer's transfer", true, {}],
  ["a transfer that was reorganised away", false, { status: "ORPHANED" }],
  ["another payer's transfer", false, { from: randomAddress() }],
  ["a transfer on another network", false, { network: "base" }],
  ["a transfer with another nonce", false, { nonce: randomHash() }],
] as const)("%s has executed the submitted authorization: %p", async (_title, isExecuted, transfer) => {
  const shown = { network: NETWORK, payer: randomAddress(), nonce: randomHash() } as const;
  await bookTransfer({ sql, merchant }, { from: shown.payer, nonce: shown.nonce, ...transfer });
  const [link] = await findPayableLinks(sql, [{ id: await seedLink(sql, merchant), shown }]);
  expect(link?.isExecuted).toBe(isExecuted);
});
