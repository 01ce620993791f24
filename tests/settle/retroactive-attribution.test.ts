/** Recorded transfers that payments and claims name, and what their attribution replaces: nothing of another network, block, payment or claim. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import type { NewPayment } from "../../db/payments/accept-payments.ts";
import { assignTransfers, findNamedTransfers } from "../../db/payments/retroactive-attribution.ts";
import { type BookedTransfer, bookTransfer } from "../support/book-transfer.ts";
import {
  accept,
  acceptFacilitated,
  type BooksLab,
  claim,
  NETWORK,
  openBooks,
  randomHash,
} from "../support/ledger-lab.ts";
import { randomAddress, seedLink, seedMerchant } from "../support/seed.ts";
import { insertHistory } from "../transactions/history.ts";

let lab: BooksLab;

beforeAll(async () => {
  lab = await openBooks({ readTo: 80 });
});
afterAll(() => lab?.stop());
beforeEach(async () => {
  lab.merchant = await seedMerchant(lab.sql);
});

const countNamed = async () => {
  const found = await lab.sql.begin((tx) => findNamedTransfers(tx, NETWORK));
  return found.filter(({ to }) => to === lab.merchant.address).length;
};
const stateOf = ({ id }: Pick<NewPayment, "id">, state: string) =>
  lab.sql`update payments set state = ${state} where id = ${id}`;

async function acceptPayment(): Promise<NewPayment> {
  const payment = await accept(lab, await seedLink(lab.sql, lab.merchant));
  if (!payment) throw new Error("the link accepted no payment");
  return payment;
}

/** Books the transfer that an open claim of one of the merchant's links names. */
async function bookClaimed(given: BookedTransfer = {}): Promise<void> {
  const named = { from: randomAddress(), txHash: randomHash(), ...given };
  await claim(lab, await seedLink(lab.sql, lab.merchant), named);
  await bookTransfer(lab, named);
}

test("a payment names no transfer of another network, though its payer has used the same nonce there", async () => {
  const { payer, nonce } = await acceptPayment();
  await bookTransfer(lab, { from: payer, nonce, network: "base" });
  expect(await countNamed()).toBe(0);
});

test("a payment names no transfer that has settled a payment already", async () => {
  const { id, payer, nonce } = await acceptPayment();
  await bookTransfer(lab, { from: payer, nonce });
  expect(await countNamed()).toBe(1);
  await lab.sql`update transfers set payment_id = ${id} where from_address = ${payer}`;
  expect(await countNamed()).toBe(0);
});

test("a payment without a link names no transfer", async () => {
  const { payer, nonce } = await acceptFacilitated(lab);
  await bookTransfer(lab, { from: payer, nonce });
  expect(await countNamed()).toBe(0);
});

test("a claim names no transfer of another network with the same hash, and none whose block left the chain", async () => {
  await bookClaimed({ network: "base" });
  await bookClaimed({ status: "ORPHANED" });
  expect(await countNamed()).toBe(0);
  await bookClaimed();
  expect(await countNamed()).toBe(1);
});

test("a claim names no transfer that paid for a third party's resource, once a block has settled that", async () => {
  const facilitated = await acceptFacilitated(lab);
  await bookClaimed({ from: facilitated.payer, nonce: facilitated.nonce });
  expect(await countNamed()).toBe(1);
  for (const state of ["MINED", "CONFIRMED"]) {
    await stateOf(facilitated, state);
    expect(await countNamed()).toBe(0);
  }
  await bookClaimed({ from: facilitated.payer, nonce: randomHash() });
  await bookClaimed({ from: randomAddress(), nonce: facilitated.nonce });
  expect(await countNamed()).toBe(2);
});

test("a claim names the transfer of an authorization that settled a link's payment", async () => {
  const payment = await acceptPayment();
  await stateOf(payment, "CONFIRMED");
  await bookClaimed({ from: payment.payer, nonce: payment.nonce });
  expect(await countNamed()).toBe(1);
});

test("an attribution replaces the history row that was opened for its own claim, and no other", async () => {
  const [link, otherLink] = [await seedLink(lab.sql, lab.merchant), await seedLink(lab.sql, lab.merchant)];
  const seen = { from: randomAddress(), txHash: randomHash() };
  const claimId = await claim(lab, link, seen);
  const otherClaimId = await claim(lab, otherLink, { from: randomAddress(), txHash: randomHash() });
  await bookTransfer(lab, seen);
  const [transfer] = await lab.sql<{ id: bigint }[]>`select id from transfers where tx_hash = ${seen.txHash}`;
  const [row = ""] = await insertHistory(lab.sql, lab.merchant.userId, [{ description: "its own row" }]);
  await lab.sql`update transactions set transfer_id = ${transfer?.id ?? 0n} where id = ${row}`;
  const given = { transferId: transfer?.id ?? 0n, linkId: link, pays: true, paymentId: undefined, claimId };
  // the second time changes nothing
  for (let count = 0; count < 2; count++)
    await assignTransfers(lab.sql, [{ ...given, settledBy: "early_claim" }]);
  const left = await lab.sql<{ claimId: string; hasTransfer: boolean }[]>`
    select claim_id, transfer_id is not null as has_transfer
    from transactions
    where owner = owner_key(${lab.merchant.userId})
    order by has_transfer`;
  expect([...left]).toEqual([
    { claimId: otherClaimId, hasTransfer: false },
    { claimId, hasTransfer: true },
  ]);
});
