/** Conditions of the statements that accept and end payments. Each closes a race: the row is put where the loser of it finds it. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { newLinkId } from "../../core/domain/ids.ts";
import { linkTag } from "../../core/domain/link-tag.ts";
import { openUse } from "../../db/links/uses.ts";
import { type NewPayment, requeuePayment } from "../../db/payments/accept-payments.ts";
import {
  failPayments,
  findPaymentViews,
  findUseByAuthorization,
  lockPayments,
} from "../../db/payments/payments.ts";
import { bookTransfer } from "../support/book-transfer.ts";
import {
  accept,
  accepted,
  acceptFacilitated,
  type BooksLab,
  claim,
  eventsOf,
  fail,
  historyOf,
  linkOf,
  makeTransfer,
  NETWORK,
  openBooks,
  paymentOf,
  pendingOf,
  randomHash,
  read,
  signRelay,
  UNITS,
} from "../support/ledger-lab.ts";
import { randomAddress, seedLink, seedLinks, seedMerchant } from "../support/seed.ts";

let lab: BooksLab;
beforeAll(async () => {
  lab = await openBooks({ readTo: 80 });
});
beforeEach(async () => {
  lab.merchant = await seedMerchant(lab.sql);
});
afterAll(() => lab?.stop());

const acceptedAnew = async () => accepted(lab, await seedLink(lab.sql, lab.merchant));

/** A transfer of the link's amount is in a block that is not deep enough: it pays the link, which is PENDING. */
async function payUndeep(linkId: string): Promise<void> {
  await read(lab, [makeTransfer(lab, 90)], [], { isDeep: false });
  expect(await linkOf(lab, linkId)).toEqual({ status: "PENDING", exception: "NONE" });
  const [row] = await lab.sql`select pays from transfers where link_id = ${linkId}`;
  expect(row).toEqual({ pays: true });
}

const requeue = (payment: NewPayment) => lab.sql.begin((tx) => requeuePayment(tx, payment.id, payment));
const passEnd = (linkId: string) =>
  lab.sql`update payment_links set expires_at = now() - interval '1 second' where id = ${linkId}`;
const setStatus = (linkId: string, status: string) =>
  lab.sql`
    update payment_links
    set status = ${status}, paid_at = case when ${status} = 'PAID' then now() end
    where id = ${linkId}`;

describe("accepting a payment", () => {
  test("an ACTIVE link accepts a payment before its expiry", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant, { expiresInS: 60 });
    expect(await accept(lab, linkId)).toBeDefined();
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "PENDING" });
  });

  test("no payment is accepted after the link's expiry, even if no job has moved it to EXPIRED", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant, { expiresInS: -1 });
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "ACTIVE" });
    expect(await accept(lab, linkId)).toBeUndefined();
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "ACTIVE" });
    expect(await historyOf(lab, linkId)).toHaveLength(0);
  });

  test("accepting a payment writes the link's event even while a rejected claim leaves the link PENDING", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    const claimId = await claim(lab, linkId, makeTransfer(lab, 90));
    await lab.sql`update claims set state = 'REJECTED' where id = ${claimId}`;
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "PENDING" });
    const payment = await accepted(lab, linkId);
    const [event] = await lab.sql`
      select type, data from events where subject_id = ${linkId} order by id desc limit 1`;
    expect(event).toEqual({ type: "payment_link.pending", data: { paymentId: payment.id } });
  });

  test.each(["PAID", "EXPIRED", "CANCELLED"])("a link that is %s accepts no payment", async (status) => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    await setStatus(linkId, status);
    expect(await accept(lab, linkId)).toBeUndefined();
  });

  test("no payment is accepted for a reusable link itself: a payer pays a use of it", async () => {
    const [linkId = ""] = await seedLinks(lab.sql, lab.merchant, { isReusable: true });
    expect(await accept(lab, linkId)).toBeUndefined();
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "ACTIVE" });
  });

  test("no payment is accepted next to a transfer of its link's amount, unless that left the chain", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    await bookTransfer(lab, { link: linkId });
    expect(await accept(lab, linkId)).toBeUndefined();
    await bookTransfer(lab, { link: linkId, pays: true, status: "ORPHANED" });
    await lab.sql`update transfers set status = 'ORPHANED' where link_id = ${linkId}`;
    expect(await accept(lab, linkId)).toBeDefined();
  });

  test("a payment is accepted for a link that has received another amount", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    await bookTransfer(lab, { link: linkId, units: UNITS - 1n });
    expect(await accept(lab, linkId)).toBeDefined();
  });

  test("no payment is accepted for a link that a transfer already pays", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    await payUndeep(linkId);
    expect(await accept(lab, linkId)).toBeUndefined();
    expect(await historyOf(lab, linkId)).toHaveLength(1);
  });
});

describe("queueing a failed payment again", () => {
  async function failed(linkId: string): Promise<NewPayment> {
    const payment = await accepted(lab, linkId);
    await fail(lab, payment);
    return payment;
  }

  test("a failed payment is queued again while its link is free", async () => {
    const payment = await failed(await seedLink(lab.sql, lab.merchant));
    expect(await requeue(payment)).toEqual({ id: payment.id });
    expect(await paymentOf(lab, payment)).toMatchObject({ state: "QUEUED", reason: null });
  });

  test("writes the link's event even while an open claim keeps the link PENDING", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    const payment = await failed(linkId);
    await claim(lab, linkId, makeTransfer(lab, 90));
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "PENDING" });
    expect(await requeue(payment)).toEqual({ id: payment.id });
    const [event] = await lab.sql`
      select type, data from events where subject_id = ${linkId} order by id desc limit 1`;
    expect(event).toEqual({ type: "payment_link.pending", data: { paymentId: payment.id } });
  });

  test("a failed payment is not queued again once a transfer pays the link", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    const payment = await failed(linkId);
    await payUndeep(linkId);
    expect(await requeue(payment)).toBeUndefined();
  });

  test("a failed payment is queued again for a link that has received another amount", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    const payment = await failed(linkId);
    await bookTransfer(lab, { link: linkId, units: UNITS - 1n });
    expect(await requeue(payment)).toEqual({ id: payment.id });
  });

  test("a failed payment is not queued again after the link's expiry", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    const payment = await failed(linkId);
    await passEnd(linkId);
    expect(await requeue(payment)).toBeUndefined();
  });

  test("a failed payment is not queued again while another payment holds the link", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    const payment = await failed(linkId);
    await accepted(lab, linkId);
    expect(await requeue(payment)).toBeUndefined();
  });

  test("a failed payment still bound to one of our transactions is not queued again: its bytes may be mined", async () => {
    const payment = await accepted(lab, await seedLink(lab.sql, lab.merchant));
    const { relayId } = await signRelay(lab, payment);
    await lab.sql`update payments set state = 'FAILED', reason = 'NONCE_USED' where id = ${payment.id}`;
    expect(await requeue(payment)).toBeUndefined();
    await lab.sql`update payments set relay_id = null where relay_id = ${relayId}`;
    expect(await requeue(payment)).toEqual({ id: payment.id });
  });

  test.each(["PAID", "EXPIRED", "CANCELLED"])(
    "a failed payment is not queued again for a link that is %s",
    async (status) => {
      const linkId = await seedLink(lab.sql, lab.merchant);
      const payment = await failed(linkId);
      await setStatus(linkId, status);
      expect(await requeue(payment)).toBeUndefined();
    },
  );

  test("a failed payment is not queued again next to a transfer of its link's amount, unless that left the chain", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    const payment = await failed(linkId);
    await bookTransfer(lab, { link: linkId });
    expect(await requeue(payment)).toBeUndefined();
    await bookTransfer(lab, { link: linkId, pays: true, status: "ORPHANED" });
    await lab.sql`update transfers set status = 'ORPHANED' where link_id = ${linkId}`;
    expect(await requeue(payment)).toEqual({ id: payment.id });
  });
});

describe("ending a payment as FAILED", () => {
  test("failing leaves a payment to the indexer while its own transfer is recorded without a link", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    const payment = await accepted(lab, linkId);
    const own = { from: payment.payer, nonce: payment.nonce };
    await bookTransfer(lab, own);
    await fail(lab, payment);
    expect(await paymentOf(lab, payment)).toMatchObject({ state: "QUEUED" });
    await lab.sql`update transfers set status = 'ORPHANED' where from_address = ${payment.payer}`;
    await fail(lab, payment);
    expect(await paymentOf(lab, payment)).toMatchObject({ state: "FAILED" });
  });

  test("failing does not wait for a transfer of another payer, nonce, recipient, amount or network, or one with a link", async () => {
    const payment = await accepted(lab, await seedLink(lab.sql, lab.merchant));
    const own = { from: payment.payer, nonce: payment.nonce };
    await bookTransfer(lab, own);
    await lab.sql`update transfers set network = 'base' where from_address = ${payment.payer}`;
    await bookTransfer(lab, { nonce: payment.nonce });
    await bookTransfer(lab, { ...own, nonce: randomHash() });
    await bookTransfer(lab, { ...own, to: randomAddress() });
    await bookTransfer(lab, { ...own, units: UNITS - 1n });
    await bookTransfer(lab, { ...own, link: await seedLink(lab.sql, lab.merchant) });
    await fail(lab, payment);
    expect(await paymentOf(lab, payment)).toMatchObject({ state: "FAILED" });
  });

  test("failing a QUEUED payment releases its link", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    const payment = await accepted(lab, linkId);
    await fail(lab, payment);
    expect(await paymentOf(lab, payment)).toMatchObject({ state: "FAILED", reason: "EXPIRED_TRANSFER" });
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "ACTIVE" });
  });

  test("failing releases a link that has received another amount", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    const payment = await accepted(lab, linkId);
    await bookTransfer(lab, { link: linkId, units: UNITS - 1n });
    await fail(lab, payment);
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "ACTIVE" });
  });

  test("failing releases a link that nothing holds any more: its transfer left the chain, its claim is disproved or over", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    const payment = await accepted(lab, linkId);
    await bookTransfer(lab, { link: linkId, pays: true, status: "ORPHANED" });
    const [disproved, over] = [
      await claim(lab, linkId, makeTransfer(lab, 90)),
      await claim(lab, linkId, makeTransfer(lab, 90)),
    ];
    await lab.sql`update claims set state = 'REJECTED' where id = ${disproved}`;
    await lab.sql`update claims set lease_until = now() - interval '1 second' where id = ${over}`;
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "PENDING" });
    await fail(lab, payment);
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "ACTIVE" });
  });

  test("failing keeps a link PENDING while a claim holds it", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    const payment = await accepted(lab, linkId);
    const claimId = await claim(lab, linkId, makeTransfer(lab, 90));
    await fail(lab, payment);
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "PENDING" });
    const [row] = await lab.sql`select status from transactions where claim_id = ${claimId}`;
    expect(row).toEqual({ status: "PENDING" });
  });

  test("failing skips a payment that another worker has signed concurrently: its transaction may be mined", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    const payment = await accepted(lab, linkId);
    await signRelay(lab, payment);
    await fail(lab, payment);
    expect(await paymentOf(lab, payment)).toMatchObject({ state: "SIGNED", reason: null });
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "PENDING" });
    expect(await pendingOf(lab, linkId)).toMatchObject([{ paymentId: payment.id }]);
    expect([...(await historyOf(lab, linkId))]).toEqual([]);
    expect(await eventsOf(lab, linkId)).toEqual(["pending"]);
  });

  test.each(["PAID", "EXPIRED", "CANCELLED"])("failing does not change a link that is %s", async (status) => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    const payment = await accepted(lab, linkId);
    await setStatus(linkId, status);
    await fail(lab, payment);
    expect(await paymentOf(lab, payment)).toMatchObject({ state: "FAILED" });
    expect(await linkOf(lab, linkId)).toMatchObject({ status });
    expect(await eventsOf(lab, linkId)).toEqual(["pending"]);
  });

  test("a link's payment that fails without a node's answer has an unknown outcome until its window closes", async () => {
    const linked = await accepted(lab, await seedLink(lab.sql, lab.merchant));
    const facilitated = await acceptFacilitated(lab);
    const ids = [linked.id, facilitated.id];
    await lab.sql.begin(async (tx) => {
      await lockPayments(tx, ids);
      await failPayments(
        tx,
        ids.map((id) => ({ id, reason: "RELAYER_UNAVAILABLE", isOutcomeUnknown: true })),
      );
    });
    const rows = await lab.sql`
      select id, state, doubt_since is not null as is_outcome_unknown, doubt_until is not null as has_end
      from payments
      where id = any(${ids}::text[])
      order by link_id nulls last`;
    expect([...rows]).toEqual([
      { id: linked.id, state: "FAILED", isOutcomeUnknown: true, hasEnd: true },
      { id: facilitated.id, state: "FAILED", isOutcomeUnknown: false, hasEnd: false },
    ]);
  });

  test.each(["BROADCAST", "MINED", "CONFIRMED"])("failing skips a payment that is %s", async (state) => {
    const payment = await accepted(lab, await seedLink(lab.sql, lab.merchant));
    await lab.sql`update payments set state = ${state} where id = ${payment.id}`;
    await fail(lab, payment);
    expect(await paymentOf(lab, payment)).toMatchObject({ state, reason: null });
  });

  test("failing keeps the link PENDING when a transfer pays it", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    const payment = await accepted(lab, linkId);
    await payUndeep(linkId);
    await fail(lab, payment);
    expect(await paymentOf(lab, payment)).toMatchObject({ state: "FAILED" });
    expect(await linkOf(lab, linkId)).toEqual({ status: "PENDING", exception: "NONE" });
    expect(await eventsOf(lab, linkId)).toEqual(["pending"]);
  });
});

describe("locking payments", () => {
  test("blocks access to exactly these until the transaction ends", async () => {
    const [held, free] = [await acceptedAnew(), await acceptedAnew()];
    const ids = [held.id, free.id];
    const unlocked = async () => {
      const rows = await lab.sql<{ id: string }[]>`
        select id from payments where id = any(${ids}::text[]) for update skip locked`;
      return rows.map(({ id }) => id);
    };
    await lab.sql.begin(async (tx) => {
      await lockPayments(tx, [held.id]);
      expect(await unlocked()).toEqual([free.id]);
    });
    expect((await unlocked()).sort()).toEqual(ids.sort());
  });
});

test("an authorization is found for the link whose use it pays, not for another one", async () => {
  const [parentId = "", other = ""] = await seedLinks(lab.sql, lab.merchant, { count: 2, isReusable: true });
  const id = newLinkId();
  const use = { parentId, id, tag: linkTag(id), amountUnits: undefined, opener: "203.0.113.1" };
  await lab.sql.begin((tx) => openUse(tx, use));
  const { payer: from, nonce } = await accepted(lab, id);
  const find = (link: string) =>
    findUseByAuthorization(lab.sql, { id: link, network: NETWORK }, { from, nonce });
  expect([await find(parentId), await find(other)]).toEqual([id, undefined]);
});

describe("a payment as its caller sees it", () => {
  test("is BROADCAST once its own relay was sent", async () => {
    const [sent, waiting] = [await acceptedAnew(), await acceptedAnew()];
    const stateOf = async ({ id }: NewPayment) => (await findPaymentViews(lab.sql, [id]))[0]?.state;
    const { relayId } = await signRelay(lab, sent);
    await signRelay(lab, waiting);
    expect([await stateOf(sent), await stateOf(waiting)]).toEqual(["SIGNED", "SIGNED"]);
    await lab.sql`update relays set state = 'BROADCAST' where id = ${relayId}`;
    expect([await stateOf(sent), await stateOf(waiting)]).toEqual(["BROADCAST", "SIGNED"]);
  });

  test("names the newest attempt of its own relay that carries it", async () => {
    const [own, other] = [await acceptedAnew(), await acceptedAnew()];
    const attemptOf = async ({ id }: NewPayment) => (await findPaymentViews(lab.sql, [id]))[0]?.attemptHash;
    expect(await attemptOf(own)).toBeNull();
    const first = await signRelay(lab, own);
    const second = await signRelay(lab, other);
    expect([await attemptOf(own), await attemptOf(other)]).toEqual([first.txHash, second.txHash]);
    await lab.sql`update relay_attempts set left_out = array[${own.id}] where relay_id = ${first.relayId}`;
    expect(await attemptOf(own)).toBeNull();
    await lab.sql`update relay_attempts set is_noop = true where relay_id = ${second.relayId}`;
    expect(await attemptOf(other)).toBeNull();
  });
});
