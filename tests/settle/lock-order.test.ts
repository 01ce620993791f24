/**
 * A transaction that settles locks all links it changes by one statement, in the order of their ids. One that held some while it waited for
 * others would meet an API's group of payments, or a contested claim, that waits the other way round.
 */
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  setDefaultTimeout,
  test,
} from "bun:test";
import { lockLinks } from "../../db/links/lock-links.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { applySpan, toSpan } from "../../indexer/settle/apply-span.ts";
import { readHeader } from "../../indexer/source/block-header.ts";
import { readRange } from "../../indexer/source/block-logs.ts";
import { type Term, watchOf } from "../../indexer/term.ts";
import { bookTransfer } from "../support/book-transfer.ts";
import {
  amounts,
  headOf,
  type Lab,
  makeLink,
  makeMerchant,
  makePayer,
  openLab,
  openTerm,
  pay,
  settled,
  startIndexer,
} from "../support/indexer-lab.ts";
import {
  accept,
  type BooksLab,
  claim,
  linkOf,
  lookBack,
  makeTransfer,
  openBooks,
  paymentOf,
  read,
} from "../support/ledger-lab.ts";
import { waitFor } from "../support/relay-lab.ts";
import { seedLinks, seedMerchant } from "../support/seed.ts";

setDefaultTimeout(120_000);

/** Runs `settle` while another transaction holds `low`, and locks `high` once `settle` waits: a deadlock when that holds `high`. */
async function meetInOrder(
  sql: Sql,
  { low, high }: { low: string; high: string },
  settle: () => Promise<unknown>,
): Promise<void> {
  let settling: Promise<unknown> | undefined;
  await sql.begin(async (tx) => {
    await lockLinks(tx, [low]);
    settling = settle();
    await waitFor("the settling transaction to wait for a link", async () => {
      const [row] = await sql`
        select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
      return row !== undefined;
    });
    await lockLinks(tx, [high]);
  });
  await settling;
}

async function inOrder(sql: Sql, ids: readonly string[]): Promise<{ low: string; high: string }> {
  const rows = await sql<
    { id: string }[]
  >`select id from payment_links where id = any(${[...ids]}) order by id`;
  const [low, high] = rows.map(({ id }) => id);
  if (!low || !high) throw new Error("there are no two links");
  return { low, high };
}

describe("a transaction that settles locks its links in one order", () => {
  let lab: BooksLab;
  beforeAll(async () => {
    lab = await openBooks();
  });
  beforeEach(async () => {
    lab.merchant = await seedMerchant(lab.sql);
  });
  afterAll(() => lab.stop());

  test("behavior: those of payments that ended without a transfer too", async () => {
    const links = await inOrder(lab.sql, await seedLinks(lab.sql, lab.merchant, { count: 2 }));
    const [spent, paid] = [await accept(lab, links.low), await accept(lab, links.high)];
    if (!spent || !paid) throw new Error("a payment was not accepted");
    // the transfer does not fit the other link
    await lab.sql`update payment_links set amount_units = 1 where id = ${links.low}`;
    await meetInOrder(lab.sql, links, () => read(lab, [makeTransfer(lab, 101, { payment: paid })], [spent]));
    expect(await paymentOf(lab, spent)).toMatchObject({ state: "FAILED" });
    expect(await linkOf(lab, links.high)).toMatchObject({ status: "PAID" });
  });

  test("behavior: the one that a transfer leaves for its sender's proof too", async () => {
    const links = await inOrder(lab.sql, await seedLinks(lab.sql, lab.merchant, { count: 2 }));
    const { txHash, from } = makeTransfer(lab, 99);
    await bookTransfer(lab, { link: links.low, pays: true, settledBy: "early_claim", txHash, from });
    await lab.sql`update payment_links set status = 'PENDING', amount_units = 1 where id = ${links.low}`;
    await claim(lab, links.high, makeTransfer(lab, 99, { txHash, from }), "EOA");
    await meetInOrder(lab.sql, links, () => lookBack(lab));
    expect(await linkOf(lab, links.low)).toMatchObject({ status: "ACTIVE" });
    expect(await linkOf(lab, links.high)).toMatchObject({ status: "PAID" });
  });
});

describe("a block that settles one link and confirms another", () => {
  let lab: Lab;
  let term: Term & { close: () => void };
  beforeAll(async () => {
    lab = await openLab();
  });
  afterEach(() => term.close());
  afterAll(() => lab.stop());

  async function nextSpan() {
    const { number } = term.cursor;
    await waitFor("the transfer's block", async () => (await headOf(lab)).number > number);
    const head = await readHeader(term.chain, "latest");
    if (!head) throw new Error("the chain has no head");
    const range = { from: number + 1, to: head.number };
    const span = toSpan(term, await readRange(term.chain, range, watchOf(term.watched)), head);
    if (!span) throw new Error("there is no block to apply");
    return span;
  }

  test("behavior: locks both in one order", async () => {
    const freshUnits = amounts();
    const [merchant, payer] = [await makeMerchant(lab), await makePayer(lab)];
    const unitsOf = new Map<string, bigint>();
    for (const units of [freshUnits(), freshUnits()])
      unitsOf.set(await makeLink(lab, merchant, { units }), units);
    const links = await inOrder(lab.sql, [...unitsOf.keys()]);
    const indexer = startIndexer(lab);
    await settled(lab);
    await indexer.stop();
    term = Object.assign(await openTerm(lab), { confirmations: 2 });
    await pay(lab, payer, merchant.address, unitsOf.get(links.low) ?? 0n);
    await applySpan(term, await nextSpan());
    expect(await linkOf(lab, links.low)).toMatchObject({ status: "PENDING" });
    await pay(lab, payer, merchant.address, unitsOf.get(links.high) ?? 0n);
    const span = await nextSpan();
    await meetInOrder(lab.sql, links, () => applySpan(term, span));
    expect(await linkOf(lab, links.low)).toMatchObject({ status: "PAID" });
    expect(await linkOf(lab, links.high)).toMatchObject({ status: "PENDING" });
  });
});
