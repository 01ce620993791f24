/** Conditions of the statements that settle payments, links and history: each with the row that it must leave alone. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { findPublicLink } from "../../db/links/links.ts";
import { noteReceiptMails } from "../../db/links/receipts.ts";
import { recomputeLinkStatus } from "../../db/links/recompute-link-status.ts";
import type { NewPayment } from "../../db/payments/accept-payments.ts";
import { assignTransfers, findNamedTransfers } from "../../db/payments/retroactive-attribution.ts";
import { failSpentPayments } from "../../db/payments/settlement.ts";
import { type BookedTransfer, bookTransfer } from "../support/book-transfer.ts";
import {
  accept,
  acceptFacilitated,
  type BooksLab,
  claim,
  eventsOf,
  linkOf,
  lookBack,
  makeTransfer,
  NETWORK,
  openBooks,
  paymentOf,
  randomHash,
  readUpTo,
  UNITS,
} from "../support/ledger-lab.ts";
import { randomAddress, seedLink, seedLinks, seedMerchant } from "../support/seed.ts";
import { insertHistory } from "../transactions/history.ts";

let lab: BooksLab;
let linkId: string;
let payment: NewPayment;

beforeAll(async () => {
  lab = await openBooks({ readTo: 80 });
});
afterAll(() => lab?.stop());
beforeEach(async () => {
  lab.merchant = await seedMerchant(lab.sql);
  linkId = await seedLink(lab.sql, lab.merchant);
  const taken = await accept(lab, linkId);
  if (!taken) throw new Error("the link accepted no payment");
  payment = taken;
});

const setState = (state: string, reason: string | null = null) =>
  lab.sql`update payments set state = ${state}, reason = ${reason} where id = ${payment.id}`;

describe("an authorization that was spent without paying", () => {
  const failSpent = (
    spent: Partial<Pick<NewPayment, "payer" | "nonce"> & { isDeep: boolean }> = {},
    network: "base" | "base-sepolia" = NETWORK,
  ) =>
    lab.sql.begin((tx) =>
      failSpentPayments(tx, network, [
        { payer: payment.payer, nonce: payment.nonce, isDeep: true, ...spent },
        // of another payer, with its nonce
        { payer: randomAddress(), nonce: payment.nonce, isDeep: true },
      ]),
    );

  test("in a shallow block ends its payment that is QUEUED, but not one that is signed for a link", async () => {
    for (const state of ["SIGNED", "BROADCAST"]) {
      await setState(state);
      expect(await failSpent({ isDeep: false })).toEqual([]);
      expect(await paymentOf(lab, payment)).toMatchObject({ state, reason: null });
    }
    await setState("QUEUED");
    expect(await failSpent({ isDeep: false })).toEqual([{ id: payment.id, linkId }]);
  });

  test("in a shallow block ends a facilitated payment that is signed", async () => {
    const { id, payer, nonce } = await acceptFacilitated(lab);
    await lab.sql`update payments set state = 'SIGNED' where id = ${id}`;
    expect(await failSpent({ payer, nonce, isDeep: false })).toEqual([{ id, linkId: null }]);
  });

  test.each(["QUEUED", "SIGNED", "BROADCAST"])(
    "ends its payment that is %s, and only that payment's history row",
    async (state) => {
      await setState(state);
      const other = await accept(lab, await seedLink(lab.sql, lab.merchant));
      expect(await failSpent()).toEqual([{ id: payment.id, linkId }]);
      expect(await paymentOf(lab, payment)).toMatchObject({ state: "FAILED", reason: "NONCE_USED" });
      const [row] = await lab.sql`
      select status, failure_reason from transactions where payment_id = ${payment.id}`;
      expect(row).toEqual({ status: "FAILED", failureReason: "NONCE_USED" });
      const rows =
        await lab.sql`select status from pending_transactions where payment_id = ${other?.id ?? ""}`;
      expect([...rows]).toEqual([{ status: "PENDING" }]);
    },
  );

  test.each(["MINED", "CONFIRMED"])("leaves a payment that is %s settled", async (state) => {
    await setState(state);
    expect(await failSpent()).toEqual([]);
    expect(await paymentOf(lab, payment)).toMatchObject({ state, reason: null });
  });

  test("keeps the reason of a payment that has already FAILED", async () => {
    await setState("FAILED", "INSUFFICIENT_FUNDS");
    expect(await failSpent()).toEqual([]);
    expect(await paymentOf(lab, payment)).toMatchObject({ reason: "INSUFFICIENT_FUNDS" });
  });

  test("ends no payment of another payer, nonce, network or token", async () => {
    expect(await failSpent({ payer: randomAddress() })).toEqual([]);
    expect(await failSpent({ nonce: randomHash() })).toEqual([]);
    expect(await failSpent({}, "base")).toEqual([]);
    await lab.sql`update payments set token = ${randomAddress()} where id = ${payment.id}`;
    expect(await failSpent()).toEqual([]);
    expect(await paymentOf(lab, payment)).toMatchObject({ state: "QUEUED" });
  });
});

describe("a transfer of another amount", () => {
  const refresh = () => lab.sql.begin((tx) => recomputeLinkStatus(tx, { linkIds: [linkId], isReorg: false }));

  test("marks its link once; removing the mark with the transfer's block writes no event", async () => {
    await bookTransfer(lab, { link: linkId, units: UNITS - 1n });
    await refresh();
    expect(await linkOf(lab, linkId)).toEqual({ status: "PENDING", exception: "UNDERPAID" });
    await refresh();
    await lab.sql`update transfers set status = 'ORPHANED' where link_id = ${linkId}`;
    await refresh();
    expect(await linkOf(lab, linkId)).toEqual({ status: "PENDING", exception: "NONE" });
    expect(await eventsOf(lab, linkId)).toEqual(["pending", "exception"]);
  });
});

describe("what exists in addition to a link's payment", () => {
  test("a further transfer to a link that a transfer pays is a DUPLICATE, whatever its amount", async () => {
    const link = await seedLink(lab.sql, lab.merchant);
    await bookTransfer(lab, { link, pays: true });
    await bookTransfer(lab, { link, units: UNITS - 1n });
    await lab.sql.begin((tx) => recomputeLinkStatus(tx, { linkIds: [link], isReorg: false }));
    expect(await linkOf(lab, link)).toEqual({ status: "PAID", exception: "DUPLICATE" });
  });

  test.each([
    ["ORPHANED", "PENDING"],
    ["DETECTED", "ACTIVE"],
  ] as const)(
    "an unproven claim of a transfer that is %s leaves one of two equal links %s",
    async (status, expected) => {
      const [link] = [await seedLink(lab.sql, lab.merchant), await seedLink(lab.sql, lab.merchant)];
      const transfer = makeTransfer(lab, 90);
      await bookTransfer(lab, { from: transfer.from, status });
      await lab.sql`update transfers set tx_hash = ${transfer.txHash} where from_address = ${transfer.from}`;
      await claim(lab, link, transfer);
      expect(await linkOf(lab, link)).toMatchObject({ status: expected });
    },
  );
});

describe("a link that becomes PAID", () => {
  async function pay(customer: string | null) {
    const link = await seedLink(lab.sql, lab.merchant);
    await lab.sql`update payment_links set customer_email = ${customer} where id = ${link}`;
    await bookTransfer(lab, { link, pays: true });
    const moves = await lab.sql.begin((tx) => recomputeLinkStatus(tx, { linkIds: [link], isReorg: false }));
    const mails = await lab.sql`select 1 from receipt_mails where link_id = ${link}`;
    return { link, moves, mails: mails.length };
  }

  test.each([
    ["bob@example.test", true, 1],
    [null, false, 0],
  ] as const)("of the customer %s wants a receipt: %p", async (customer, wantsReceipt, count) => {
    const { link, moves, mails } = await pay(customer);
    expect(moves).toMatchObject([{ id: link, before: "ACTIVE", after: "PAID", wantsReceipt }]);
    expect(mails).toBe(count);
  });

  test("gets no mail for a transfer that is not CONFIRMED, nor while it is not PAID", async () => {
    const link = await seedLink(lab.sql, lab.merchant);
    const note = () => lab.sql.begin((tx) => noteReceiptMails(tx, [link]));
    await lab.sql`update payment_links set customer_email = 'bob@example.test' where id = ${link}`;
    await bookTransfer(lab, { link, pays: true, status: "DETECTED" });
    await lab.sql`update payment_links set status = 'PAID', paid_at = now() where id = ${link}`;
    expect(await note()).toEqual([]);
    await lab.sql`update transfers set status = 'CONFIRMED' where link_id = ${link}`;
    await lab.sql`update payment_links set status = 'PENDING', paid_at = null where id = ${link}`;
    expect(await note()).toEqual([]);
    await lab.sql`update payment_links set status = 'PAID', paid_at = now() where id = ${link}`;
    expect(await note()).toHaveLength(1);
    expect(await note()).toEqual([]);
  });

  test("has a depth counted from its transfer's block to the last one read, and at least one", async () => {
    const { link } = await pay(null);
    const depths: Record<number, number | null | undefined> = {};
    for (const number of [101, 99, 80]) {
      await readUpTo(lab, number);
      depths[number] = (await findPublicLink(lab.sql, link))?.payingDepth;
    }
    expect(depths).toEqual({ 101: 3, 99: 1, 80: 1 });
    const unpaid = await seedLink(lab.sql, lab.merchant);
    await bookTransfer(lab, { link: unpaid, pays: true, status: "ORPHANED" });
    await bookTransfer(lab, { link: unpaid });
    expect((await findPublicLink(lab.sql, unpaid))?.payingDepth).toBeNull();
  });
});

describe("transfers recorded before what names them", () => {
  const named = async () => {
    const found = await lab.sql.begin((tx) => findNamedTransfers(tx, NETWORK));
    return found.filter(({ to }) => to === lab.merchant.address).length;
  };

  test.each([
    ["QUEUED", 1],
    ["SIGNED", 1],
    ["BROADCAST", 1],
    ["MINED", 0],
    ["CONFIRMED", 0],
    ["FAILED", 0],
  ])("a payment that is %s names %d transfers of its authorization", async (state, count) => {
    await bookTransfer(lab, { from: payment.payer, nonce: payment.nonce });
    await setState(state, state === "FAILED" ? "EXPIRED_TRANSFER" : null);
    expect(await named()).toBe(count);
  });

  test("a payment names no transfer of another authorization, nor one whose block left the chain", async () => {
    await bookTransfer(lab, { from: payment.payer, nonce: randomHash() });
    await bookTransfer(lab, { from: randomAddress(), nonce: payment.nonce });
    await bookTransfer(lab, { from: payment.payer, nonce: payment.nonce, status: "ORPHANED" });
    expect(await named()).toBe(0);
  });

  test("a claim names its sender's transfer to its link, while it is open", async () => {
    await setState("FAILED", "EXPIRED_TRANSFER");
    await lab.sql`update payment_links set status = 'ACTIVE' where id = ${linkId}`;
    const transfer = makeTransfer(lab, 90);
    const claimId = await claim(lab, linkId, transfer);
    await bookTransfer(lab, { from: transfer.from });
    await bookTransfer(lab, { from: randomAddress() });
    await bookTransfer(lab, { from: transfer.from, to: randomAddress() });
    await lab.sql`
      update transfers set tx_hash = ${transfer.txHash}
      where to_address = ${lab.merchant.address} or from_address = ${transfer.from}`;
    expect(await named()).toBe(1);
    const sent = await lab.sql.begin((tx) => findNamedTransfers(tx, NETWORK));
    expect(sent.filter(({ from }) => from === transfer.from).map(({ to }) => to)).toEqual([
      lab.merchant.address,
    ]);
    expect(await lab.sql.begin((tx) => findNamedTransfers(tx, "base"))).toEqual([]);
    await lab.sql`update claims set state = 'REJECTED' where id = ${claimId}`;
    expect(await named()).toBe(0);
  });

  test.each([
    ["proven", "amount", 1],
    ["proven", "pay_amount", 1],
    ["proven", "early_claim", 1],
    ["proven", "proof", 0],
    ["proven", "tag", 0],
    ["unproven", "amount", 0],
  ])("a %s claim on a transfer that another link has by %s names %d transfers", async (kind, by, count) => {
    await setState("FAILED", "EXPIRED_TRANSFER");
    const transfer = makeTransfer(lab, 90);
    await claim(lab, linkId, transfer, kind === "proven" ? "EOA" : null);
    await bookTransfer(lab, { from: transfer.from, link: await seedLink(lab.sql, lab.merchant), pays: true });
    await lab.sql`
      update transfers set tx_hash = ${transfer.txHash}, settled_by = ${by} where from_address = ${transfer.from}`;
    expect(await named()).toBe(count);
    await lab.sql`update transfers set link_id = ${linkId} where from_address = ${transfer.from}`;
    expect(await named()).toBe(0);
  });
});

describe("a recorded transfer", () => {
  const own = (given: BookedTransfer) =>
    bookTransfer(lab, { from: payment.payer, nonce: payment.nonce, ...given });
  const booked = async () => {
    const [row] = await lab.sql`
      select link_id, payment_id, settled_by from transfers where from_address = ${payment.payer}`;
    return row;
  };

  test.each([true, false])(
    "settles its authorization's payment accepted for its link meanwhile, as the one that pays it: %p",
    async (pays) => {
      await own({ link: linkId, pays, settledBy: "tag" });
      if (!pays) await bookTransfer(lab, { link: linkId, pays: true });
      await lookBack(lab);
      expect(await paymentOf(lab, payment)).toMatchObject({ state: "CONFIRMED" });
      expect(await booked()).toEqual({ linkId, paymentId: payment.id, settledBy: "tag" });
      expect(await linkOf(lab, linkId)).toMatchObject({ status: "PAID" });
    },
  );

  test("that counts for another link stays there, and ends the payment", async () => {
    const other = await seedLink(lab.sql, lab.merchant);
    await own({ link: other, pays: true, settledBy: "amount" });
    await lab.sql`update payment_links set status = 'PENDING' where id = ${other}`;
    await lookBack(lab);
    expect(await paymentOf(lab, payment)).toMatchObject({ state: "FAILED", reason: "NONCE_USED" });
    expect(await booked()).toEqual({ linkId: other, paymentId: null, settledBy: "amount" });
  });

  test("signed for another amount under the payment's nonce settles nothing, and ends the payment", async () => {
    await own({ link: linkId, units: UNITS - 1n, settledBy: "tag" });
    await lookBack(lab);
    expect(await paymentOf(lab, payment)).toEqual({ state: "FAILED", reason: "NONCE_USED", txHash: null });
    expect(await booked()).toEqual({ linkId, paymentId: null, settledBy: "tag" });
    expect(await linkOf(lab, linkId)).toEqual({ status: "ACTIVE", exception: "UNDERPAID" });
  });

  test.each([
    ["PENDING", "ACTIVE", "MATCHED"],
    ["PAID", "PAID", "DISPUTED"],
  ])("leaves a link by inference that is %s for its sender's proof: %s, %s", async (status, after, state) => {
    const [other = "", claimed = ""] = await seedLinks(lab.sql, lab.merchant, { count: 2 });
    const { txHash, from } = makeTransfer(lab, 99);
    await bookTransfer(lab, { link: other, pays: true, settledBy: "amount", txHash, from });
    const paidAt = status === "PAID" ? new Date() : null;
    await lab.sql`update payment_links set status = ${status}, paid_at = ${paidAt} where id = ${other}`;
    await claim(lab, claimed, makeTransfer(lab, 99, { txHash, from }), "EOA");
    await lookBack(lab);
    const [row] = await lab.sql`
      select transfers.link_id, settled_by, claims.state
      from transfers
      join claims on claims.tx_hash = hex_of(transfers.tx_hash)
      where transfers.tx_hash = ${txHash}`;
    const place = state === "MATCHED" ? [claimed, "proof"] : [other, "amount"];
    expect(row).toEqual({ linkId: place[0], settledBy: place[1], state });
    expect(await linkOf(lab, other)).toMatchObject({ status: after });
  });
});

test("attributing a transfer to a link changes the payee's history row, never the sender's", async () => {
  const sender = await seedMerchant(lab.sql);
  await bookTransfer(lab, { from: sender.address });
  const [transfer] = await lab.sql<
    { id: bigint }[]
  >`select id from transfers where from_address = ${sender.address}`;
  const transferId = transfer?.id ?? 0n;
  const rows = [
    ...(await insertHistory(lab.sql, sender.userId, [{ type: "SEND", description: "mine" }])),
    ...(await insertHistory(lab.sql, lab.merchant.userId, [{ type: "RECEIVE" }])),
  ];
  await lab.sql`update transactions set transfer_id = ${transferId} where id = any(${rows}::text[])`;
  await lab.sql.begin((tx) =>
    assignTransfers(tx, [
      { transferId, linkId, pays: true, settledBy: "amount", paymentId: undefined, claimId: undefined },
    ]),
  );
  const history = await lab.sql`
    select type, link_id, description from transactions where id = any(${rows}::text[]) order by owner = owner_key(${sender.userId}) desc`;
  expect([...history]).toEqual([
    { type: "SEND", linkId: null, description: "mine" },
    { type: "PAYMENT_LINK", linkId, description: "a test link" },
  ]);
});
