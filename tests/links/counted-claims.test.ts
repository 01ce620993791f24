/** A claim of a transfer that counts for its link by other evidence: the history shows the payment once. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import type { NewPayment } from "../../db/payments/accept-payments.ts";
import {
  accepted,
  type BooksLab,
  claim,
  historyOf,
  linkOf,
  lookBack,
  makeTransfer,
  openBooks,
  randomHash,
  read,
  signRelay,
  undoAbove,
} from "../support/ledger-lab.ts";
import { randomAddress, seedLink, seedMerchant } from "../support/seed.ts";

let lab: BooksLab;
let linkId: string;
let payment: NewPayment;
let txHash: Hex;
beforeAll(async () => {
  lab = await openBooks();
});
afterAll(() => lab?.stop());
beforeEach(async () => {
  lab.merchant = await seedMerchant(lab.sql);
  linkId = await seedLink(lab.sql, lab.merchant);
  payment = await accepted(lab, linkId);
  txHash = (await signRelay(lab, payment)).txHash;
});

const readRelay = () => read(lab, [makeTransfer(lab, 101, { payment, txHash })]);

async function stateOf(id: string): Promise<string | undefined> {
  const [row] = await lab.sql<{ state: string }[]>`select state from claims where id = ${id}`;
  return row?.state;
}

const paidOnce = [{ type: "PAYMENT_LINK", status: "CONFIRMED", txHash: expect.any(String) }];

test("its payer's claim of our own relay is matched once the relay is in a block, and its pending row is gone", async () => {
  const id = await claim(lab, linkId, { txHash, from: payment.payer });
  expect(await historyOf(lab, linkId)).toMatchObject([{ status: "PENDING" }]);
  await readRelay();
  await lookBack(lab);
  expect(await stateOf(id)).toBe("MATCHED");
  expect([...(await historyOf(lab, linkId))]).toEqual(paidOnce);
  expect(await linkOf(lab, linkId)).toMatchObject({ status: "PAID" });
});

test("a proof of a claim whose transfer counts already leaves no pending row", async () => {
  const id = await claim(lab, linkId, { txHash, from: payment.payer });
  await readRelay();
  await claim(lab, linkId, { txHash, from: payment.payer }, "EOA");
  expect(await stateOf(id)).toBe("MATCHED");
  expect([...(await historyOf(lab, linkId))]).toEqual(paidOnce);
});

test("claims of another sender, of another link and of a transfer that has left the chain stay open", async () => {
  const other = await claim(lab, linkId, { txHash, from: randomAddress() });
  const elsewhere = await seedLink(lab.sql, lab.merchant, { amountUnits: 3_000_000n });
  const ofOther = await claim(lab, elsewhere, { txHash: randomHash(), from: payment.payer });
  const own = await claim(lab, linkId, { txHash, from: payment.payer });
  await lab.sql`update claims set tx_hash = ${txHash} where id = ${ofOther}`;
  await readRelay();
  await undoAbove(lab, 100);
  await lookBack(lab);
  expect(await stateOf(own)).toBe("OPEN");
  await readRelay();
  await lookBack(lab);
  expect(await Promise.all([own, other, ofOther].map(stateOf))).toEqual(["MATCHED", "OPEN", "OPEN"]);
});
