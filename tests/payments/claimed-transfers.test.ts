/**
 * The unpaid check before signing, beside claims: a transfer that an open claim of the link names is going to pay the link once the
 * indexer has looked at it, although the ledger does not say so yet.
 */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import type { NewPayment } from "../../db/payments/accept-payments.ts";
import { checkUnpaidBeforeSigning, lockForSigning } from "../../db/payments/check-unpaid-before-signing.ts";
import { type BookedTransfer, bookTransfer } from "../support/book-transfer.ts";
import {
  accepted,
  type BooksLab,
  claim,
  lookBack,
  makeTransfer,
  NETWORK,
  openBooks,
  randomHash,
  UNITS,
} from "../support/ledger-lab.ts";
import { randomAddress, seedLink, seedMerchant } from "../support/seed.ts";

let lab: BooksLab;
let linkId: string;
let otherLinkId: string;
let payment: NewPayment;

beforeAll(async () => {
  lab = await openBooks();
});
afterAll(() => lab?.stop());
beforeEach(async () => {
  lab.merchant = await seedMerchant(lab.sql);
  await lab.sql`update wallets set backfilled_at = now()`;
  linkId = await seedLink(lab.sql, lab.merchant);
  // of the same price: without the claim the transfer could be either's
  otherLinkId = await seedLink(lab.sql, lab.merchant);
  payment = await accepted(lab, linkId);
});

async function judge(): Promise<unknown> {
  const { hash: headHash } = lab.term.cursor;
  const simulationHead = { network: NETWORK, headNumber: 100n, headHash, unread: undefined } as const;
  const paymentIds = [payment.id];
  const [, verdicts] = await lab.sql.begin((tx) =>
    Promise.all([
      lockForSigning(tx, paymentIds),
      checkUnpaidBeforeSigning(tx, simulationHead, { paymentIds, state: "QUEUED" }),
    ]),
  );
  return verdicts.get(payment.id);
}

const book = (booked: BookedTransfer) => bookTransfer(lab, booked);

/** As the ledger has them when the claim came while the block was being read. */
async function bookNamed(booked: BookedTransfer = {}, claimedLinkId = linkId) {
  const named = makeTransfer(lab, 99);
  const id = await claim(lab, claimedLinkId, named);
  await book({ txHash: named.txHash, from: named.from, ...booked });
  return id;
}

test("claimed before its block, or proven: early, and paid once it is attributed", async () => {
  for (const proof of [null, "EOA"] as const) {
    const txHash = randomHash();
    const from = randomAddress();
    const id = await claim(lab, linkId, { ...makeTransfer(lab, 99), txHash, from }, proof);
    expect(await judge()).toBe("free");
    await book({ txHash, from });
    expect(await judge()).toBe("early");
    await lab.sql`update claims set state = 'EXPIRED' where id = ${id}`;
    expect(await judge()).toBe("free");
  }
  await bookNamed();
  await lookBack(lab);
  expect(await judge()).toBe("paid");
});

test("its unique amount counts as its amount: early; another amount: free", async () => {
  await bookNamed({ units: UNITS + 5n });
  expect(await judge()).toBe("free");
  await lab.sql`update payment_links set pay_amount_units = ${UNITS + 5n} where id = ${linkId}`;
  expect(await judge()).toBe("early");
});

test("a claim of another link, sender, wallet or link's transfer, or without a block: free", async () => {
  await bookNamed({}, otherLinkId);
  await bookNamed({ status: "ORPHANED" });
  await bookNamed({ to: randomAddress() });
  await bookNamed({ network: "base" });
  await bookNamed({ link: otherLinkId, settledBy: "amount" });
  const elsewhere = makeTransfer(lab, 99);
  await claim(lab, linkId, elsewhere);
  await book({ txHash: elsewhere.txHash });
  expect(await judge()).toBe("free");
});

test("an unproven claim that came late, or that its merchant does not trust: free; proven nevertheless: early", async () => {
  const id = await bookNamed();
  await lab.sql`update claims set is_early = false where id = ${id}`;
  expect(await judge()).toBe("free");
  await lab.sql`update claims set is_early = true where id = ${id}`;
  await lab.sql`update users set claim_policy = 'proven' where id = ${lab.merchant.userId}`;
  expect(await judge()).toBe("free");
  await lab.sql`update claims set is_early = false, proof = 'EOA' where id = ${id}`;
  expect(await judge()).toBe("early");
});

test("an unproven claim with another link's claim of the same transaction: free, unless that one was rejected", async () => {
  const named = makeTransfer(lab, 99);
  const rival = await claim(lab, otherLinkId, named);
  const id = await claim(lab, linkId, named);
  // as where no other link asked for this value then
  await lab.sql`update claims set state = 'OPEN' where id = ${id}`;
  await book({ txHash: named.txHash, from: named.from });
  expect(await judge()).toBe("free");
  await lab.sql`update claims set state = 'REJECTED' where id = ${rival}`;
  expect(await judge()).toBe("early");
  const [stranger, elsewhere] = [randomAddress(), { ...named, txHash: randomHash() }];
  await claim(lab, linkId, { ...named, from: stranger });
  await claim(lab, otherLinkId, elsewhere);
  expect(await judge()).toBe("early");
});

test("a proven claim of a transfer attributed to another link by inference: early, and paid once it has moved", async () => {
  const named = makeTransfer(lab, 99);
  await book({ link: otherLinkId, settledBy: "amount", pays: true, txHash: named.txHash, from: named.from });
  await lab.sql`update payment_links set status = 'PENDING' where id = ${otherLinkId}`;
  expect(await judge()).toBe("free");
  await claim(lab, linkId, named, "EOA");
  expect(await judge()).toBe("early");
  await lab.sql`update transfers set settled_by = 'tag' where tx_hash = ${named.txHash}`;
  expect(await judge()).toBe("free");
  await lab.sql`update transfers set settled_by = 'amount' where tx_hash = ${named.txHash}`;
  await lookBack(lab);
  expect(await judge()).toBe("paid");
});
