/** A link that was once paid in full never asks for the money again, whatever else held and released it. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { linkTag } from "../../core/domain/link-tag.ts";
import { endClaim } from "../../db/links/end-claims.ts";
import { findPayableLinks } from "../../db/links/payable-links.ts";
import { recomputeLinkStatus } from "../../db/links/recompute-link-status.ts";
import { type NewPayment, requeuePayment } from "../../db/payments/accept-payments.ts";
import { leaseQueuedPayments } from "../../db/payments/queue.ts";
import type { SeenTransfer } from "../../indexer/source/decode-logs.ts";
import { bookTransfer } from "../support/book-transfer.ts";
import {
  accept,
  type BooksLab,
  claim,
  eventsOf,
  fail,
  historyOf,
  linkOf,
  lookBack,
  makeBlock,
  makeTransfer,
  NETWORK,
  openBooks,
  paymentOf,
  pendingOf,
  randomHash,
  read,
  readUpTo,
  UNITS,
  undoAbove,
} from "../support/ledger-lab.ts";
import { randomAddress, seedLink, seedLinks, seedMerchant } from "../support/seed.ts";

let lab: BooksLab;
beforeAll(async () => {
  lab = await openBooks({ readTo: 80 });
});
beforeEach(async () => {
  lab.merchant = await seedMerchant(lab.sql);
});
afterAll(() => lab.stop());

async function acceptOn(linkId: string): Promise<NewPayment> {
  const payment = await accept(lab, linkId);
  if (!payment) throw new Error("the link accepted no payment");
  return payment;
}

type Scene = { linkId: string; first: NewPayment; second: NewPayment; transfer: SeenTransfer };

/** A payment failed, another one holds the link, and a third party executes the first one's authorization. */
async function executeFailed({ expiresInS = 3_600, blockNumber = 90 } = {}): Promise<Scene> {
  const linkId = await seedLink(lab.sql, lab.merchant, { expiresInS });
  const first = await acceptOn(linkId);
  await fail(lab, first);
  const second = await acceptOn(linkId);
  const transfer = makeTransfer(lab, blockNumber, { payment: first });
  await read(lab, [transfer]);
  expect(await linkOf(lab, linkId)).toEqual({ status: "PENDING", exception: "DUPLICATE" });
  return { linkId, first, second, transfer };
}

async function expectPaidByFirst({ linkId, first, transfer: { txHash } }: Scene): Promise<void> {
  expect(await linkOf(lab, linkId)).toEqual({ status: "PAID", exception: "NONE" });
  expect(await paymentOf(lab, first)).toEqual({ state: "CONFIRMED", reason: null, txHash });
  const rows = (await historyOf(lab, linkId)).filter((row) => row.txHash === txHash);
  expect(rows).toEqual([{ type: "PAYMENT_LINK", status: "CONFIRMED", txHash }]);
  const events = await eventsOf(lab, linkId);
  expect(events.filter((type) => type === "paid")).toHaveLength(1);
}

const passEnd = (linkId: string) =>
  lab.sql`update payment_links set expires_at = now() - interval '1 second' where id = ${linkId}`;

describe("a failed payment's authorization, executed by a third party while another payment holds the link, pays it", () => {
  test("once the worker ends the other", async () => {
    const scene = await executeFailed();
    await fail(lab, scene.second);
    expect(await linkOf(lab, scene.linkId)).toMatchObject({ status: "PENDING" });
    await lookBack(lab);
    await expectPaidByFirst(scene);
    expect(await eventsOf(lab, scene.linkId)).not.toContain("expired");
  });

  test("once the worker ends the other after the link's expiry", async () => {
    const scene = await executeFailed();
    await lab.sql`update transfers set block_time = now() - interval '1 hour' where tx_hash = ${scene.transfer.txHash}`;
    await passEnd(scene.linkId);
    await fail(lab, scene.second);
    expect(await linkOf(lab, scene.linkId)).toMatchObject({ status: "PENDING" });
    await lookBack(lab);
    await expectPaidByFirst(scene);
  });

  test("once the chain shows that the other's authorization was used without a transfer", async () => {
    const scene = await executeFailed();
    await read(lab, [], [scene.second]);
    expect(await paymentOf(lab, scene.second)).toMatchObject({ state: "FAILED", reason: "NONCE_USED" });
    await lookBack(lab);
    await expectPaidByFirst(scene);
  });

  test("once a claim that also held it has ended", async () => {
    const scene = await executeFailed();
    const claimId = await claim(lab, scene.linkId, makeTransfer(lab, 91));
    await fail(lab, scene.second);
    await lab.sql.begin((tx) =>
      endClaim(tx, { id: claimId, state: "EXPIRED", reason: "not_found", isProven: false }),
    );
    expect(await linkOf(lab, scene.linkId)).toMatchObject({ status: "PENDING" });
    await lookBack(lab);
    await expectPaidByFirst(scene);
  });

  test("but not while the other may still settle; if it does, the first is a duplicate", async () => {
    const scene = await executeFailed();
    await lookBack(lab);
    expect(await linkOf(lab, scene.linkId)).toEqual({ status: "PENDING", exception: "DUPLICATE" });
    const own = makeTransfer(lab, 91, { payment: scene.second });
    await read(lab, [own]);
    await lookBack(lab);
    expect(await linkOf(lab, scene.linkId)).toEqual({ status: "PAID", exception: "DUPLICATE" });
    expect(await paymentOf(lab, scene.first)).toMatchObject({ state: "FAILED" });
    expect(await paymentOf(lab, scene.second)).toMatchObject({ state: "CONFIRMED", txHash: own.txHash });
  });

  test.each(["QUEUED", "SIGNED", "BROADCAST"])("but not while the other is %s", async (state) => {
    const scene = await executeFailed();
    await lab.sql`update payments set state = ${state} where id = ${scene.second.id}`;
    await lookBack(lab);
    expect(await linkOf(lab, scene.linkId)).toEqual({ status: "PENDING", exception: "DUPLICATE" });
    expect(await paymentOf(lab, scene.first)).toMatchObject({ state: "FAILED" });
  });

  test("the earlier of two", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    const first = await acceptOn(linkId);
    await fail(lab, first);
    const middle = await acceptOn(linkId);
    await fail(lab, middle);
    const last = await acceptOn(linkId);
    const transfers = [
      makeTransfer(lab, 92, { payment: middle }),
      makeTransfer(lab, 93, { payment: first }),
    ] as const;
    await read(lab, transfers);
    await fail(lab, last);
    await lookBack(lab);
    expect(await linkOf(lab, linkId)).toEqual({ status: "PAID", exception: "DUPLICATE" });
    expect(await paymentOf(lab, middle)).toMatchObject({ state: "CONFIRMED", txHash: transfers[0].txHash });
    expect(await paymentOf(lab, first)).toMatchObject({ state: "FAILED" });
  });
});

describe("before the indexer's next poll, such a link", () => {
  test("accepts no new payment and no failed one again, and reports a payment in progress", async () => {
    const scene = await executeFailed();
    await fail(lab, scene.second);
    expect(await accept(lab, scene.linkId)).toBeUndefined();
    expect(await lab.sql.begin((tx) => requeuePayment(tx, scene.second.id, scene.second))).toBeUndefined();
    const { txHash } = scene.transfer;
    expect(await findPayableLinks(lab.sql, [{ id: scene.linkId }])).toMatchObject([
      { paymentId: null, paidTxHash: txHash },
    ]);
    await lookBack(lab);
    await expectPaidByFirst(scene);
  });

  test("relays none of its queued payments: the link would be paid twice", async () => {
    const scene = await executeFailed();
    const leased = await leaseQueuedPayments(lab.sql, NETWORK, 50, 1);
    expect(leased.find(({ id }) => id === scene.second.id)).toMatchObject({ isLinkPaid: true });
  });
});

describe("a paying transfer that is reorganised away leaves its link to the transfer that was a duplicate", () => {
  test("of a failed payment", async () => {
    const scene = await executeFailed({ blockNumber: 94 });
    await read(lab, [makeTransfer(lab, 102)]);
    expect(await linkOf(lab, scene.linkId)).toMatchObject({ status: "PAID", exception: "DUPLICATE" });
    await fail(lab, scene.second);
    await undoAbove(lab, 101);
    await lookBack(lab);
    expect(await linkOf(lab, scene.linkId)).toEqual({ status: "PAID", exception: "NONE" });
    expect(await paymentOf(lab, scene.first)).toMatchObject({ state: "CONFIRMED" });
  });

  test("of a claim", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    // two more, so that no amount alone decides
    await seedLinks(lab.sql, lab.merchant, { count: 2 });
    const [early, late] = [makeTransfer(lab, 95), makeTransfer(lab, 100)];
    await read(lab, [early]);
    await claim(lab, linkId, late);
    await read(lab, [late]);
    await claim(lab, linkId, early, "EOA");
    await lookBack(lab);
    expect(await linkOf(lab, linkId)).toEqual({ status: "PAID", exception: "DUPLICATE" });
    await undoAbove(lab, 99);
    await lab.sql`update claims set state = 'EXPIRED', reason = 'not_found' where state = 'OPEN'`;
    await lookBack(lab);
    expect(await linkOf(lab, linkId)).toEqual({ status: "PAID", exception: "NONE" });
    const rows = (await historyOf(lab, linkId)).filter((row) => row.txHash === early.txHash);
    expect(rows).toMatchObject([{ type: "PAYMENT_LINK", status: "CONFIRMED" }]);
  });

  test("of a payment that was settled additionally, rather than one that failed", async () => {
    const scene = await executeFailed({ blockNumber: 96 });
    await read(lab, [makeTransfer(lab, 105)]);
    const own = makeTransfer(lab, 97, { payment: scene.second });
    await read(lab, [own]);
    expect(await paymentOf(lab, scene.second)).toMatchObject({ state: "CONFIRMED" });
    await undoAbove(lab, 104);
    await lookBack(lab);
    expect(await linkOf(lab, scene.linkId)).toEqual({ status: "PAID", exception: "DUPLICATE" });
    const [paying] = await lab.sql`
      select tx_hash from transfers where link_id = ${scene.linkId} and pays and status <> 'ORPHANED'`;
    expect(paying).toEqual({ txHash: own.txHash });
  });
});

describe("a payment whose transfer was recorded before it was accepted", () => {
  afterEach(() => readUpTo(lab, 80));

  test("is not failed by the worker: the indexer ends it at its next poll, because it came too late to pay", async () => {
    const [linkId = ""] = await seedLinks(lab.sql, lab.merchant, { count: 2 });
    const [payer, nonce] = [randomAddress(), randomHash()];
    const transfer = makeTransfer(lab, 99, { from: payer, authorizationNonce: nonce });
    await read(lab, [transfer]);
    expect(await historyOf(lab, linkId)).toHaveLength(0);
    await readUpTo(lab, 99);
    const payment = await accept(lab, linkId, { payer, nonce });
    if (!payment) throw new Error("the link accepted no payment");
    await fail(lab, payment, "PAYMENT_NOT_ALLOWED");
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "PENDING" });
    expect(await paymentOf(lab, payment)).toMatchObject({ state: "QUEUED" });
    await lookBack(lab);
    expect(await linkOf(lab, linkId)).toEqual({ status: "ACTIVE", exception: "NONE" });
    expect(await paymentOf(lab, payment)).toMatchObject({ state: "FAILED", reason: "NONCE_USED" });
    expect(await eventsOf(lab, linkId)).toEqual(["pending", "released"]);
  });

  test("is not settled by the amount, even if no other link asks for it: only the amount at the block counts", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    const setMatching = (matches: boolean) =>
      lab.sql`update users set match_by_amount = ${matches} where id = ${lab.merchant.userId}`;
    await setMatching(false);
    const [payer, nonce] = [randomAddress(), randomHash()];
    const transfer = makeTransfer(lab, 99, { from: payer, authorizationNonce: nonce });
    await read(lab, [transfer]);
    await setMatching(true);
    await readUpTo(lab, 99);
    const payment = await accept(lab, linkId, { payer, nonce });
    if (!payment) throw new Error("the link accepted no payment");
    await lookBack(lab);
    expect(await paymentOf(lab, payment)).toMatchObject({ state: "FAILED", reason: "NONCE_USED" });
    const [row] = await lab.sql`select link_id from transfers where tx_hash = ${transfer.txHash}`;
    expect(row).toEqual({ linkId: null });
    expect(await linkOf(lab, linkId)).toEqual({ status: "ACTIVE", exception: "NONE" });
  });

  test("is settled when its block is later than the acceptance, even if it was read at the same time", async () => {
    const [linkId = ""] = await seedLinks(lab.sql, lab.merchant, { count: 2 });
    const [payer, nonce] = [randomAddress(), randomHash()];
    const later = { ...makeBlock(99), timeS: Math.floor(Date.now() / 1000) + 60 };
    const transfer = makeTransfer(lab, 99, { block: later, from: payer, authorizationNonce: nonce });
    await read(lab, [transfer]);
    const payment = await accept(lab, linkId, { payer, nonce });
    if (!payment) throw new Error("the link accepted no payment");
    await lookBack(lab);
    expect(await linkOf(lab, linkId)).toEqual({ status: "PAID", exception: "NONE" });
    expect(await paymentOf(lab, payment)).toMatchObject({ state: "CONFIRMED", txHash: transfer.txHash });
  });

  test("fails when that transfer pays another link", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    const [payer, nonce] = [randomAddress(), randomHash()];
    await read(lab, [makeTransfer(lab, 99, { from: payer, authorizationNonce: nonce })]);
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "PAID" });
    const other = await seedLink(lab.sql, lab.merchant);
    const payment = await accept(lab, other, { payer, nonce });
    if (!payment) throw new Error("the link accepted no payment");
    await fail(lab, payment, "PAYMENT_NOT_ALLOWED");
    expect(await paymentOf(lab, payment)).toMatchObject({ state: "FAILED", reason: "PAYMENT_NOT_ALLOWED" });
    expect(await linkOf(lab, other)).toEqual({ status: "ACTIVE", exception: "NONE" });
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "PAID" });
  });
});

describe("a payment whose sender also claims its transaction has one history row", () => {
  test.each([
    ["accepted before the block", 90, "authorization"],
    ["accepted too late, but claimed in time", 80, "early_claim"],
  ])("%s", async (_, blockNumber, settledBy) => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    const payment = await acceptOn(linkId);
    const transfer = makeTransfer(lab, blockNumber, { payment });
    await claim(lab, linkId, transfer);
    expect(await pendingOf(lab, linkId)).toHaveLength(2);
    await read(lab, [transfer]);
    expect(await linkOf(lab, linkId)).toEqual({ status: "PAID", exception: "NONE" });
    const { txHash } = transfer;
    expect(await paymentOf(lab, payment)).toEqual({ state: "CONFIRMED", reason: null, txHash });
    const rows = await historyOf(lab, linkId);
    expect([...rows]).toEqual([{ type: "PAYMENT_LINK", status: "CONFIRMED", txHash }]);
    const [row] = await lab.sql`
      select settled_by, (select state from claims where link_id = ${linkId}) as claim
      from payment_links
      where id = ${linkId}`;
    expect(row).toEqual({ settledBy, claim: "MATCHED" });
  });

  test("a transfer attributed by its tag takes over the row of its sender's claim", async () => {
    const [linkId = ""] = await seedLinks(lab.sql, lab.merchant, { count: 2 });
    await lab.sql`update payment_links set tag = ${linkTag(linkId)} where id = ${linkId}`;
    const transfer = { ...makeTransfer(lab, 90), tag: linkTag(linkId) };
    await claim(lab, linkId, transfer, "EOA");
    await read(lab, [transfer]);
    const rows = await historyOf(lab, linkId);
    expect([...rows]).toEqual([{ type: "PAYMENT_LINK", status: "CONFIRMED", txHash: transfer.txHash }]);
    expect(await linkOf(lab, linkId)).toEqual({ status: "PAID", exception: "NONE" });
    const [row] = await lab.sql`select state from claims where link_id = ${linkId}`;
    expect(row).toEqual({ state: "MATCHED" });
  });
});

describe("the link of a claim that ends", () => {
  const end = (id: string) =>
    lab.sql.begin((tx) => endClaim(tx, { id, state: "EXPIRED", reason: "not_found", isProven: false }));
  const failed = async (linkId: string) => fail(lab, await acceptOn(linkId));
  const moments: [string, string, (linkId: string) => Promise<unknown>][] = [
    ["PENDING", "a payment in flight", acceptOn],
    ["ACTIVE", "a failed payment", failed],
    ["PENDING", "a transfer that pays it", (link) => bookTransfer(lab, { link, pays: true })],
    ["PENDING", "a transfer of its amount", (link) => bookTransfer(lab, { link })],
    ["ACTIVE", "a transfer of another amount", (link) => bookTransfer(lab, { link, units: UNITS - 1n })],
    [
      ...(["ACTIVE", "one that paid it and left the chain"] as const),
      (link) => bookTransfer(lab, { link, pays: true, status: "ORPHANED" }),
    ],
  ];
  test.each(moments)("is %s next to %s", async (status, _, hold) => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    const claimId = await claim(lab, linkId, makeTransfer(lab, 90));
    await hold(linkId);
    await end(claimId);
    expect(await linkOf(lab, linkId)).toMatchObject({ status });
  });

  test("that nothing else holds is released, and only if it is PENDING", async () => {
    const [waiting, cancelled] = [
      await seedLink(lab.sql, lab.merchant),
      await seedLink(lab.sql, lab.merchant),
    ];
    await claim(lab, waiting, makeTransfer(lab, 90));
    await lab.sql`update claims set lease_until = now() where link_id = ${waiting}`;
    await lab.sql`update payment_links set status = 'CANCELLED' where id = ${cancelled}`;
    await end(await claim(lab, cancelled, makeTransfer(lab, 90), "EOA"));
    expect(await linkOf(lab, cancelled)).toMatchObject({ status: "CANCELLED" });
    expect(await linkOf(lab, waiting)).toMatchObject({ status: "PENDING" });
  });
});

test("a PAID link that another transfer has paid since has that transfer's time, and stays there", async () => {
  const linkId = await seedLink(lab.sql, lab.merchant);
  const refresh = () => lab.sql.begin((tx) => recomputeLinkStatus(tx, { linkIds: [linkId], isReorg: true }));
  await bookTransfer(lab, { link: linkId, pays: true });
  await refresh();
  await lab.sql`update transfers set status = 'ORPHANED' where link_id = ${linkId}`;
  const txHash = randomHash();
  await bookTransfer(lab, { link: linkId, pays: true, txHash });
  await lab.sql`update transfers set block_time = block_time + interval '1 minute' where tx_hash = ${txHash}`;
  expect(await refresh()).toMatchObject([{ before: "PAID", after: "PAID" }]);
  expect(await refresh()).toEqual([]);
  const [row] = await lab.sql`
    select link.status, link.paid_at = transfers.block_time as is_its_time
    from payment_links link
    join transfers on transfers.link_id = link.id and transfers.tx_hash = ${txHash}
    where link.id = ${linkId}`;
  expect(row).toEqual({ status: "PAID", isItsTime: true });
});

describe("a cancelled link", () => {
  test("stays cancelled, whatever is executed for it afterwards", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    const payment = await acceptOn(linkId);
    await fail(lab, payment);
    await lab.sql`update payment_links set status = 'CANCELLED' where id = ${linkId}`;
    await read(lab, [makeTransfer(lab, 98, { payment })]);
    await lookBack(lab);
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "CANCELLED" });
  });
});
