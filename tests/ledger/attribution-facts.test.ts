/** The claims and payments that may name a transfer, as the ledger reads them: each beside those that must not decide about it. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { findPayments, loadClaims } from "../../db/ledger/attribution.ts";
import { bookTransfer } from "../support/book-transfer.ts";
import {
  accepted,
  acceptFacilitated,
  type BooksLab,
  claim,
  makeTransfer,
  NETWORK,
  openBooks,
} from "../support/ledger-lab.ts";
import { randomAddress, seedLink, seedMerchant } from "../support/seed.ts";

let lab: BooksLab;
beforeAll(async () => {
  lab = await openBooks({ readTo: 80 });
});
afterAll(() => lab?.stop());
beforeEach(async () => {
  lab.merchant = await seedMerchant(lab.sql);
});

const newLink = () => seedLink(lab.sql, lab.merchant);

/** The claims of a transaction, with whether each may decide as an early one. */
async function claimsOf(txHash: Hex): Promise<Record<string, boolean>> {
  const { block, ...rest } = makeTransfer(lab, 90, { txHash });
  const transfer = { ...rest, blockNumber: block.number, blockTimeMs: block.timeS * 1_000 };
  const found = await loadClaims(lab.sql as never, NETWORK, [transfer]);
  return Object.fromEntries(found.map(({ id, isEarly }) => [id, isEarly]));
}

const setState = (id: string, state: string) => lab.sql`update claims set state = ${state} where id = ${id}`;

test("an early claim decides unless another link's claim names the same transaction and was not disproved", async () => {
  const { txHash, from } = makeTransfer(lab, 90);
  const linkId = await newLink();
  const id = await claim(lab, linkId, { txHash, from });
  const other = await claim(lab, linkId, { txHash, from: randomAddress() });
  const elsewhere = await claim(lab, await newLink(), makeTransfer(lab, 90));
  expect(await claimsOf(txHash)).toEqual({ [id]: true, [other]: true });
  const rival = await claim(lab, await newLink(), { txHash, from: randomAddress() });
  for (const one of [id, other]) await setState(one, "OPEN");
  expect(await claimsOf(txHash)).toMatchObject({ [id]: false, [other]: false });
  await setState(rival, "REJECTED");
  expect(await claimsOf(txHash)).toEqual({ [id]: true, [other]: true });
  await setState(other, "MATCHED");
  expect(await claimsOf(txHash)).toEqual({ [id]: true });
  expect(await claimsOf(makeTransfer(lab, 90).txHash)).toEqual({});
  await setState(elsewhere, "EXPIRED");
});

test("a payment is settled before by its own transfer only, and a facilitated one is none of a link", async () => {
  const payment = await accepted(lab, await newLink());
  const facilitated = await acceptFacilitated(lab);
  const find = async () => {
    const found = await findPayments(lab.sql as never, NETWORK, [
      { payer: payment.payer, nonce: payment.nonce },
      { payer: facilitated.payer, nonce: facilitated.nonce },
    ]);
    return found.map(({ id, wasSettled }) => [id, wasSettled]);
  };
  // of another payer, with its nonce
  const from = randomAddress();
  await bookTransfer(lab, { from, nonce: payment.nonce, status: "ORPHANED" });
  expect(await find()).toEqual([[payment.id, false]]);
  await lab.sql`update transfers set payment_id = ${payment.id} where from_address = ${from}`;
  expect(await find()).toEqual([[payment.id, true]]);
});
