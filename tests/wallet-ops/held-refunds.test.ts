/** A signed refund whose payment leaves the chain before it is sent: it waits for the payment, and is not sent without it. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { newRefundId } from "../../core/domain/ids.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { leaseQueuedOperations, markOperationsSigned } from "../../db/wallet-ops/queue.ts";
import type { SeenTransfer } from "../../indexer/source/decode-logs.ts";
import { type BooksLab, makeBlock, makeTransfer, NETWORK, read, undoAbove } from "../support/ledger-lab.ts";
import { type OperationLab, openOperationLab } from "../support/operation-lab.ts";
import { seedLink, seedMerchant } from "../support/seed.ts";

setDefaultTimeout(120_000);

let lab: OperationLab;
let sql: Sql;

beforeAll(async () => {
  lab = await openOperationLab();
  ({ sql } = lab);
});
afterAll(() => lab?.stop());

type Paid = { books: BooksLab; linkId: string; transfer: SeenTransfer };

async function makePaidLink(): Promise<Paid> {
  const books = { sql, merchant: await seedMerchant(sql) } as BooksLab;
  const linkId = await seedLink(sql, books.merchant);
  const transfer = makeTransfer(books, 101);
  await read(books, [transfer]);
  return { books, linkId, transfer };
}

/** Signed, and not sent yet. */
async function queueRefund({ books, linkId, transfer }: Paid): Promise<string> {
  const made = await lab.queued();
  const id = newRefundId(new Date());
  await sql`update wallet_operations set id = ${id}, kind = 'REFUND' where id = ${made.id}`;
  await sql`
    insert into refunds (
      id, user_id, link_id, network, paid_tx_hash, paid_log_index, to_address, to_source, amount_units
    )
    values (
      ${id}, ${books.merchant.userId}, ${linkId}, ${NETWORK}, ${transfer.txHash}, ${transfer.logIndex}, ${transfer.from},
      'transfer_sender', ${transfer.amountUnits}
    )`;
  return id;
}

async function lease(): Promise<string[]> {
  const leased = await leaseQueuedOperations(sql, NETWORK, { limit: 10, leaseMs: 0 });
  return leased.map(({ id }) => id);
}

test("a queued refund is neither taken nor signed while its payment is off the chain, and both once that is back", async () => {
  const paid = await makePaidLink();
  const id = await queueRefund(paid);
  expect(await lease()).toContain(id);
  await undoAbove(paid.books, 100);
  expect(await lease()).not.toContain(id);
  const relayId = await lab.makeRelay("SIGNED");
  expect(await markOperationsSigned(sql, relayId, [id])).toEqual([]);
  await read(paid.books, [{ ...paid.transfer, block: makeBlock(101), logIndex: 6 }]);
  expect(await lease()).toContain(id);
  expect(await markOperationsSigned(sql, relayId, [id])).toEqual([id]);
});

test("a refund that was sent before is sent again, since its first bytes can still be mined", async () => {
  const paid = await makePaidLink();
  const id = await queueRefund(paid);
  await sql`update wallet_operations set relayed_at = now() where id = ${id}`;
  await undoAbove(paid.books, 100);
  expect(await lease()).toContain(id);
  expect(await markOperationsSigned(sql, await lab.makeRelay("SIGNED"), [id])).toEqual([id]);
});

test("a refund of another payment is not held up", async () => {
  const [gone, kept] = [await makePaidLink(), await makePaidLink()];
  const id = await queueRefund(kept);
  await sql`update transfers set block_number = 100 where tx_hash = ${kept.transfer.txHash}`;
  await queueRefund(gone);
  await undoAbove(gone.books, 100);
  expect(await lease()).toEqual([id]);
});
