/** Locks and the reads behind them are pipelined: the reads must see what previous lock holders committed. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { cancelLink } from "../../db/links/links.ts";
import { lockLinks } from "../../db/links/lock-links.ts";
import { recomputeLinkStatus } from "../../db/links/recompute-link-status.ts";
import { insertPayments } from "../../db/payments/accept-payments.ts";
import { lockPayments } from "../../db/payments/payments.ts";
import {
  accept,
  type BooksLab,
  claim,
  linkOf,
  makePayment,
  makeTransfer,
  openBooks,
  read,
  undoAbove,
} from "../support/ledger-lab.ts";
import { waitFor } from "../support/relay-lab.ts";
import { seedLink, seedMerchant } from "../support/seed.ts";

/** The first statement of a connection is parsed before it is sent, later ones are not. */
const ROUNDS = 6;
let lab: BooksLab;
beforeAll(async () => {
  lab = await openBooks();
});
afterAll(() => lab.stop());

const isWaiting = () =>
  waitFor("a transaction to wait for the link", async () => {
    const [row] = await lab.sql`
      select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
    return row !== undefined;
  });

test("behavior: a link's status is computed from what the holder of its lock committed", async () => {
  for (let round = 0; round < ROUNDS; round++) {
    const linkId = await seedLink(lab.sql, lab.merchant);
    let refreshed: Promise<unknown> | undefined;
    const payment = await accept(lab, linkId);
    await lab.sql.begin(async (tx) => {
      await lockLinks(tx, [linkId]);
      refreshed = lab.sql.begin((other) => recomputeLinkStatus(other, { linkIds: [linkId], isReorg: false }));
      await isWaiting();
      await tx`update payments set state = 'FAILED', reason = 'EXPIRED_TRANSFER' where id = ${payment?.id ?? ""}`;
    });
    expect(await refreshed).toMatchObject([{ id: linkId, before: "PENDING", after: "ACTIVE" }]);
  }
});

test("behavior: a transfer is attributed by what the holder of its link's lock committed", async () => {
  for (let round = 0; round < ROUNDS; round++) {
    lab.merchant = await seedMerchant(lab.sql);
    const linkId = await seedLink(lab.sql, lab.merchant);
    let judged: Promise<unknown> | undefined;
    await lab.sql.begin(async (tx) => {
      await cancelLink(tx, { id: linkId, userId: lab.merchant.userId });
      judged = read(lab, [makeTransfer(lab, 90)]);
      await isWaiting();
    });
    await judged;
    expect(await linkOf(lab, linkId)).toEqual({ status: "CANCELLED", exception: "NONE" });
    const paying = await lab.sql`select 1 from transfers where link_id = ${linkId}`;
    expect(paying).toHaveLength(0);
  }
});

test("behavior: a reorganisation locks links before their claims, as every end of a claim does: no deadlock", async () => {
  lab.merchant = await seedMerchant(lab.sql);
  const linkId = await seedLink(lab.sql, lab.merchant);
  const transfer = makeTransfer(lab, 95);
  const claimId = await claim(lab, linkId, transfer);
  await read(lab, [transfer]);
  let undone: Promise<unknown> | undefined;
  await lab.sql.begin(async (tx) => {
    await lockLinks(tx, [linkId]);
    undone = undoAbove(lab, 94);
    await isWaiting();
    await tx`update claims set updated_at = now() where id = ${claimId}`;
  });
  await undone;
  expect(await linkOf(lab, linkId)).toMatchObject({ status: "PENDING" });
});

/** Two links that a scan of the table meets against the order of their ids. */
async function seedInverted(): Promise<{ low: string; high: string }> {
  const high = await seedLink(lab.sql, lab.merchant);
  const low = `link_${"0".repeat(high.length - "link_".length)}`;
  await lab.sql`update payment_links set created_block = 96 where id = ${high}`;
  for (;;) {
    const id = await seedLink(lab.sql, lab.merchant);
    await lab.sql`update payment_links set id = ${low}, created_block = 96 where id = ${id}`;
    const [first] = await lab.sql`select id from payment_links where id in (${low}, ${high}) order by ctid`;
    if (first?.id === high) return { low, high };
    await lab.sql`delete from payment_links where id = ${low}`;
  }
}

test("behavior: a reorganisation locks links in the order of their ids, including those of its blocks: no deadlock", async () => {
  lab.merchant = await seedMerchant(lab.sql);
  const { low, high } = await seedInverted();
  let undone: Promise<unknown> | undefined;
  await lab.sql.begin(async (tx) => {
    await lockLinks(tx, [low]);
    undone = undoAbove(lab, 94);
    await isWaiting();
    await lockLinks(tx, [high]);
  });
  await undone;
  const links =
    await lab.sql`select id from payment_links where id in (${low}, ${high}) and created_block = 94`;
  expect(links).toHaveLength(2);
});

test("behavior: a reorganisation locks payments before links: no deadlock", async () => {
  lab.merchant = await seedMerchant(lab.sql);
  const linkIds = [await seedLink(lab.sql, lab.merchant), await seedLink(lab.sql, lab.merchant)];
  await lab.sql`update payment_links set created_block = 101 where id = any(${linkIds})`;
  const paid = linkIds.map((id) => makePayment(lab, id));
  for (const payment of paid) await lab.sql.begin((tx) => insertPayments(tx, [payment]));
  await read(
    lab,
    paid.map((payment) => makeTransfer(lab, 102, { payment })),
  );
  const ids = paid.map(({ id }) => id);
  let undone: Promise<unknown> | undefined;
  await lab.sql.begin(async (tx) => {
    await lockPayments(tx, ids);
    undone = undoAbove(lab, 100);
    await isWaiting();
    await lockLinks(tx, linkIds);
  });
  await undone;
  const reopened = await lab.sql`select id from payments where id = any(${ids}) and state = 'QUEUED'`;
  expect(reopened).toHaveLength(2);
});
