/** A payment that was accepted before a reorganisation may be executed by a third party in every block of the new branch. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import { orphanBlocksAbove } from "../../db/ledger/orphan-blocks.ts";
import { lockLinks } from "../../db/links/lock-links.ts";
import { insertPayments, type NewPayment } from "../../db/payments/accept-payments.ts";
import type { Term } from "../../indexer/leader-term.ts";
import { applySpan } from "../../indexer/settle/apply-span.ts";
import { bookTransfer } from "../support/book-transfer.ts";
import {
  accepted,
  type BooksLab,
  fail,
  linkOf,
  makeBlock,
  makePayment,
  makeTransfer,
  NETWORK,
  openBooks,
  paymentOf,
  randomHash,
  read,
} from "../support/ledger-lab.ts";
import { seedLink, seedMerchant } from "../support/seed.ts";

let lab: BooksLab;
let term: Term;
let linkId: string;
beforeAll(async () => {
  lab = await openBooks();
});
afterAll(() => lab?.stop());
beforeEach(async () => {
  lab.merchant = await seedMerchant(lab.sql);
  term = Object.assign(lab.term, { watched: new Map([[lab.merchant.address, {}]]) });
  await setCursor(70);
  linkId = await seedLink(lab.sql, lab.merchant);
  // of the same amount, which alone decides nothing then
  await seedLink(lab.sql, lab.merchant);
  await setCursor(83);
});

async function setCursor(number: number): Promise<void> {
  const hash = randomHash();
  await lab.sql`update cursors set number = ${number}, hash = ${hash} where network = ${NETWORK}`;
  term.cursor = { number, hash };
}

async function reorganise(ancestor: number): Promise<void> {
  await lab.sql.begin((tx) => orphanBlocksAbove(tx, { network: NETWORK, ancestor, claimLeaseS: 60 }));
  await setCursor(ancestor);
}

/** The next block, in which a third party executes the payment's authorization. */
async function execute(payment: NewPayment): Promise<void> {
  const block = makeBlock(term.cursor.number + 1);
  const transfer = makeTransfer(lab, block.number, { payment, block });
  const { payer, nonce } = payment;
  const spent = [
    {
      ...{ payer, nonce, blockNumber: block.number },
      transfer: { ...transfer, blockNumber: block.number, blockTimeS: block.timeS },
    },
  ];
  const content = { block, transfers: [transfer], spent, operations: [], accountLogs: [], logCount: 2 };
  await applySpan(term, {
    ...{ blocks: [content], to: block, head: block, kept: [block], depthNumber: block.number },
    confirmedAtS: () => block.timeS,
  });
}

async function expectPaid(payment: NewPayment): Promise<void> {
  expect(await linkOf(lab, linkId)).toMatchObject({ status: "PAID", exception: "NONE" });
  expect(await paymentOf(lab, payment)).toMatchObject({ state: "CONFIRMED" });
}

test("a payment settles in a block as high as one read when it was accepted", async () => {
  const payment = await accepted(lab, linkId);
  await reorganise(77);
  await execute(payment);
  await expectPaid(payment);
});

test("a payment settles if it was not yet committed while the cursor was set back", async () => {
  const payment = makePayment(lab, linkId);
  await lab.sql.begin(async (tx) => {
    await lockLinks(tx, [linkId]);
    expect(await insertPayments(tx, [payment])).toEqual(new Set([payment.id]));
    await reorganise(77);
  });
  await execute(payment);
  await expectPaid(payment);
});

test("a payment accepted before the indexer had started settles in any block", async () => {
  const payment = await accepted(lab, linkId);
  await lab.sql`update payments set accepted_block = null where id = ${payment.id}`;
  await execute(payment);
  await expectPaid(payment);
});

test("a payment accepted on this branch keeps its block", async () => {
  const payment = await accepted(lab, linkId);
  await setCursor(90);
  await execute(payment);
  const [row] = await lab.sql`select accepted_block from payments where id = ${payment.id}`;
  expect(row).toEqual({ acceptedBlock: 83n });
});

test("a payment settles although an orphaned block had executed it since", async () => {
  const payment = await accepted(lab, linkId);
  const { payer: from, nonce } = payment;
  await bookTransfer(lab, { from, nonce, status: "ORPHANED" });
  await execute(payment);
  await expectPaid(payment);
});

test("a payment settles nothing if a block had executed it before it was accepted, whatever block executes it then", async () => {
  const { payer, nonce } = makePayment(lab, linkId);
  await read(lab, [makeTransfer(lab, 84, { from: payer, authorizationNonce: nonce })]);
  await setCursor(84);
  const payment = await accepted(lab, linkId, { payer, nonce });
  await reorganise(77);
  await read(lab, [makeTransfer(lab, 78, { payment })]);
  expect(await linkOf(lab, linkId)).toMatchObject({ status: "ACTIVE", exception: "NONE" });
  expect(await paymentOf(lab, payment)).toMatchObject({ state: "FAILED", reason: "NONCE_USED" });
});

/** Reorganised down to a branch whose first block executes the payment, which a node leaves out until the branch is higher than the acceptance. */
async function executeOmitted(payment: NewPayment): Promise<void> {
  await reorganise(77);
  await setCursor(90);
  await read(lab, [makeTransfer(lab, 78, { payment })]);
}

test("a payment settles although a node left its log out while the new branch was as low", async () => {
  const payment = await accepted(lab, linkId);
  await executeOmitted(payment);
  await expectPaid(payment);
});

test("a payment that failed settles although a node left its log out while the new branch was as low", async () => {
  const payment = await accepted(lab, linkId);
  await fail(lab, payment);
  await executeOmitted(payment);
  await expectPaid(payment);
});

test("a payment of the branch below a reorganisation keeps its block", async () => {
  const payment = await accepted(lab, linkId);
  await setCursor(90);
  const later = await accepted(lab, await seedLink(lab.sql, lab.merchant));
  await reorganise(83);
  const rows = await lab.sql<{ acceptedBlock: bigint }[]>`
    select accepted_block from payments where id in (${payment.id}, ${later.id}) order by id`;
  expect(rows.map((row) => row.acceptedBlock)).toEqual([83n, 83n]);
  await reorganise(82);
  expect(await lab.sql`select from payments where id = ${payment.id} and accepted_block = 82`).toHaveLength(
    1,
  );
});
