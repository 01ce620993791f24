/** What indexes of payments once found: which payments are open, and which ones a relay was signed for. Their updates stay in their page. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { lockLinks } from "../../db/links/lock-links.ts";
import { insertPayments, type NewPayment } from "../../db/payments/accept-payments.ts";
import { findSignedPayments } from "../../db/payments/payments-of-relay.ts";
import {
  findExpiredRelays,
  leaseQueuedPayments,
  markSigned,
  requeueRelay,
  requeueUnsettled,
} from "../../db/payments/queue.ts";
import { settlePayments } from "../../db/payments/settlement.ts";
import type { Tx } from "../../db/postgres/client.ts";
import { confirmRelays } from "../../db/relays/relays.ts";
import { asLeased } from "../support/as-leased.ts";
import {
  accept,
  type BooksLab,
  fail,
  makePayment,
  makeTransfer,
  NETWORK,
  openBooks,
  paymentOf,
  randomHash,
  read,
  signRelay,
  undoAbove,
} from "../support/ledger-lab.ts";
import { seedLink, seedLinks } from "../support/seed.ts";

let lab: BooksLab;
beforeAll(async () => {
  lab = await openBooks();
});
afterAll(() => lab.stop());

async function acceptOne(): Promise<NewPayment> {
  const payment = await accept(lab, await seedLink(lab.sql, lab.merchant));
  if (!payment) throw new Error("the link did not accept the payment");
  return payment;
}

async function isOpen({ id }: NewPayment): Promise<boolean> {
  const rows = await lab.sql`select from open_payments where network = ${NETWORK} and payment_id = ${id}`;
  return rows.length === 1;
}

async function carriedBy(relayId: bigint): Promise<string[] | undefined> {
  const [row] = await lab.sql<{ paymentIds: string[] }[]>`
    select payment_ids from relay_payments where relay_id = ${relayId}`;
  return row?.paymentIds;
}

test("a payment is open until a block has it, and again when that block is reorganised away", async () => {
  const payment = await acceptOne();
  expect(await isOpen(payment)).toBe(true);
  await signRelay(lab, payment);
  expect(await isOpen(payment)).toBe(true);
  await read(lab, [makeTransfer(lab, 101, { payment })]);
  expect((await paymentOf(lab, payment))?.state).toBe("CONFIRMED");
  expect(await isOpen(payment)).toBe(false);
  await undoAbove(lab, 100);
  expect((await paymentOf(lab, payment))?.state).toBe("SIGNED");
  expect(await isOpen(payment)).toBe(true);
});

test("a refused payment is not open, even once a block has it, and a deleted one leaves nothing", async () => {
  const [refused, deleted] = [await acceptOne(), await acceptOne()];
  await fail(lab, refused);
  expect(await isOpen(refused)).toBe(false);
  await read(lab, [makeTransfer(lab, 102, { payment: refused })]);
  expect((await paymentOf(lab, refused))?.state).toBe("CONFIRMED");
  expect(await isOpen(refused)).toBe(false);
  await lab.sql`delete from payments where id = ${deleted.id}`;
  expect(await isOpen(deleted)).toBe(false);
});

test("only open payments are leased, each by one worker", async () => {
  const [queued, ended] = [await acceptOne(), await acceptOne()];
  await fail(lab, ended);
  const lease = async () => (await leaseQueuedPayments(lab.sql, NETWORK, 100, 60_000)).map(({ id }) => id);
  const leased = await lease();
  expect(leased).toContain(queued.id);
  expect(leased).not.toContain(ended.id);
  expect(await lease()).not.toContain(queued.id);
});

test("a relay names its payments; one that was queued again no longer belongs to it", async () => {
  const [lost, kept] = [await acceptOne(), await acceptOne()];
  const { relayId } = await signRelay(lab, lost);
  expect(await carriedBy(relayId)).toEqual([lost.id]);
  await lab.sql.begin(async (tx) => markSigned(tx, relayId, await asLeased(tx, [kept])));
  expect(await carriedBy(relayId)).toEqual([lost.id, kept.id]);
  const nowS = BigInt(Math.floor(Date.now() / 1000));
  expect(await findExpiredRelays(lab.sql, [relayId], { nowS })).toEqual(new Set());
  await lab.sql.begin((tx) => requeueRelay(tx, relayId));
  expect((await paymentOf(lab, lost))?.state).toBe("QUEUED");

  const second = await signRelay(lab, lost);
  expect(await carriedBy(second.relayId)).toEqual([lost.id]);
  // still named by the first relay, but carried by the second
  await lab.sql.begin((tx) => requeueRelay(tx, relayId));
  expect((await paymentOf(lab, lost))?.state).toBe("SIGNED");
  expect(await findExpiredRelays(lab.sql, [relayId], { nowS })).toEqual(new Set([relayId]));
});

test("a relay whose payment another one carries now has none: nothing is replaced or requeued, and it is confirmed", async () => {
  const payment = await acceptOne();
  const former = await signRelay(lab, payment);
  await lab.sql.begin((tx) => requeueRelay(tx, former.relayId));
  const present = await signRelay(lab, payment);
  expect((await findSignedPayments(lab.sql, present.relayId)).map(({ id }) => id)).toEqual([payment.id]);
  expect(await findSignedPayments(lab.sql, former.relayId)).toEqual([]);
  await lab.sql`
    update relays set state = 'MINED', block_number = 100, block_hash = '0x', succeeded = true where id = ${former.relayId}`;
  expect(await requeueUnsettled(lab.sql, NETWORK, 1)).toEqual([]);
  expect((await paymentOf(lab, payment))?.state).toBe("SIGNED");
  await confirmRelays(lab.sql, NETWORK, { depthBlocks: 1, provenIds: [former.relayId] });
  expect(await lab.sql`select state from relays where id = ${former.relayId}`).toMatchObject([
    { state: "CONFIRMED" },
  ]);
});

test("signing and settling a payment change none of its indexes", async () => {
  // a row's next versions find room in its page
  await lab.sql`alter table payments set (fillfactor = 10)`;
  const payment = await acceptOne();
  const moved = await lab.sql.begin(async (tx) => {
    const before = await countUpdates(tx, "payments");
    await markSigned(tx, 9_999n, await asLeased(tx, [payment]));
    const place = { txHash: randomHash(), logIndex: 1, blockNumber: 103 };
    await settlePayments(tx, [{ id: payment.id, ...place, isConfirmed: true }]);
    const after = await countUpdates(tx, "payments");
    return { updated: after.updated - before.updated, hot: after.hot - before.hot };
  });
  expect(moved).toEqual({ updated: 2, hot: 2 });
});

test("links of one batch become PENDING on their pages", async () => {
  const count = 40;
  const linkIds = await seedLinks(lab.sql, lab.merchant, { count });
  const moved = await lab.sql.begin(async (tx) => {
    const before = await countUpdates(tx, "payment_links");
    await lockLinks(tx, linkIds);
    const accepted = await insertPayments(
      tx,
      linkIds.map((id) => makePayment(lab, id)),
    );
    const after = await countUpdates(tx, "payment_links");
    expect(accepted.size).toBe(count);
    return { updated: after.updated - before.updated, hot: after.hot - before.hot };
  });
  expect(moved.updated).toBe(count);
  // the last row of a page may be one too many
  expect(moved.hot).toBeGreaterThanOrEqual(0.8 * count);
});

/** Updates of a table by this connection that the server has not added up yet, and those that stayed in their page. */
async function countUpdates(
  tx: Tx,
  table: "payments" | "payment_links",
): Promise<{ updated: number; hot: number }> {
  const [row] = await tx<{ updated: number; hot: number }[]>`
    select n_tup_upd::int as updated, n_tup_hot_upd::int as hot
    from pg_stat_xact_user_tables
    where relname = ${table}`;
  return row ?? { updated: 0, hot: 0 };
}
