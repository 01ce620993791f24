/** Conditions of the statements that accept and end payments. Each closes a race: the row is put where the loser of it finds it. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { type NewPayment, requeuePayment } from "../../db/payments/accept-payments.ts";
import {
  accept,
  type BooksLab,
  claim,
  eventsOf,
  fail,
  historyOf,
  linkOf,
  makeTransfer,
  openBooks,
  paymentOf,
  read,
  signRelay,
} from "../support/ledger-lab.ts";
import { seedLink, seedMerchant } from "../support/seed.ts";

let lab: BooksLab;
beforeAll(async () => {
  lab = await openBooks({ readTo: 80 });
});
beforeEach(async () => {
  lab.merchant = await seedMerchant(lab.sql);
});
afterAll(() => lab?.stop());

async function accepted(linkId: string): Promise<NewPayment> {
  const payment = await accept(lab, linkId);
  if (!payment) throw new Error("the link took no payment");
  return payment;
}

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

describe("accepting a payment", () => {
  test("accepting a payment takes it for an ACTIVE link before its expiry", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant, { expiresInS: 60 });
    expect(await accept(lab, linkId)).toBeDefined();
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "PENDING" });
  });

  test("accepting a payment takes none after the link's expiry, though no job has moved it to EXPIRED", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant, { expiresInS: -1 });
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "ACTIVE" });
    expect(await accept(lab, linkId)).toBeUndefined();
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "ACTIVE" });
    expect(await historyOf(lab, linkId)).toHaveLength(0);
  });

  test("accepting a payment takes none for a link that a transfer already pays", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    await payUndeep(linkId);
    expect(await accept(lab, linkId)).toBeUndefined();
    expect(await historyOf(lab, linkId)).toHaveLength(1);
  });
});

describe("queueing a failed payment again", () => {
  async function failed(linkId: string): Promise<NewPayment> {
    const payment = await accepted(linkId);
    await fail(lab, payment);
    return payment;
  }

  test("a failed payment is queued again while its link is free", async () => {
    const payment = await failed(await seedLink(lab.sql, lab.merchant));
    expect(await requeue(payment)).toEqual({ id: payment.id });
    expect(await paymentOf(lab, payment)).toMatchObject({ state: "QUEUED", reason: null });
  });

  test("writes the link's event also while an open claim keeps the link PENDING", async () => {
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

  test("a failed payment is not queued again after the link's expiry", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    const payment = await failed(linkId);
    await passEnd(linkId);
    expect(await requeue(payment)).toBeUndefined();
  });

  test("a failed payment is not queued again while another payment holds the link", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    const payment = await failed(linkId);
    await accepted(linkId);
    expect(await requeue(payment)).toBeUndefined();
  });
});

describe("ending a payment as FAILED", () => {
  test("failing a QUEUED payment releases its link", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    const payment = await accepted(linkId);
    await fail(lab, payment);
    expect(await paymentOf(lab, payment)).toMatchObject({ state: "FAILED", reason: "EXPIRED_TRANSFER" });
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "ACTIVE" });
  });

  test("failing leaves a payment that another worker has signed concurrently: its transaction may be mined", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    const payment = await accepted(linkId);
    await signRelay(lab, payment);
    await fail(lab, payment);
    expect(await paymentOf(lab, payment)).toMatchObject({ state: "SIGNED", reason: null });
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "PENDING" });
    expect(await historyOf(lab, linkId)).toMatchObject([{ status: "PENDING" }]);
    expect(await eventsOf(lab, linkId)).toEqual(["pending"]);
  });

  test.each(["BROADCAST", "MINED", "CONFIRMED"])("failing leaves a payment that is %s", async (state) => {
    const payment = await accepted(await seedLink(lab.sql, lab.merchant));
    await lab.sql`update payments set state = ${state} where id = ${payment.id}`;
    await fail(lab, payment);
    expect(await paymentOf(lab, payment)).toMatchObject({ state, reason: null });
  });

  test("failing keeps the link PENDING when a transfer pays it", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    const payment = await accepted(linkId);
    await payUndeep(linkId);
    await fail(lab, payment);
    expect(await paymentOf(lab, payment)).toMatchObject({ state: "FAILED" });
    expect(await linkOf(lab, linkId)).toEqual({ status: "PENDING", exception: "NONE" });
    expect(await eventsOf(lab, linkId)).toEqual(["pending"]);
  });
});

describe("computing a link's status from the ledger", () => {
  test("a link whose payment's authorization was cancelled is released, with an event", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    const payment = await accepted(linkId);
    await read(lab, [], [payment]);
    expect(await paymentOf(lab, payment)).toMatchObject({ state: "FAILED", reason: "NONCE_USED" });
    expect(await linkOf(lab, linkId)).toEqual({ status: "ACTIVE", exception: "NONE" });
    expect(await eventsOf(lab, linkId)).toEqual(["pending", "released"]);
  });
});
