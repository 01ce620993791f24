/** A refunded transfer that comes back from a reorganisation elsewhere: its money went back once, and does not go back again. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { newRefundId } from "../../core/domain/ids.ts";
import { saveAssignment } from "../../db/ledger/assignments.ts";
import { cancelLink } from "../../db/links/links.ts";
import { findReceipt } from "../../db/links/receipts.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { listRefundable } from "../../db/wallet-ops/list-refundable.ts";
import { noteOrphanedRefunds } from "../../db/wallet-ops/reorganised-refunds.ts";
import type { SeenTransfer } from "../../indexer/source/decode-logs.ts";
import { bookTransfer } from "../support/book-transfer.ts";
import {
  accepted,
  type BooksLab,
  linkOf,
  makeBlock,
  makeTransfer,
  NETWORK,
  read,
  UNITS,
  undoAbove,
} from "../support/ledger-lab.ts";
import { type OperationLab, openOperationLab, randomHash } from "../support/operation-lab.ts";
import { seedLink, seedMerchant } from "../support/seed.ts";

setDefaultTimeout(120_000);

let lab: OperationLab;
let sql: Sql;

beforeAll(async () => {
  lab = await openOperationLab();
  ({ sql } = lab);
});
afterAll(() => lab?.stop());

/** A merchant of the test's own. */
async function openMerchant(): Promise<BooksLab> {
  return { sql, merchant: await seedMerchant(sql) } as BooksLab;
}

/** A confirmed refund of the whole transfer. */
async function refundWhole(books: BooksLab, linkId: string, transfer: SeenTransfer): Promise<void> {
  const { id: operationId } = await lab.relayed("BROADCAST", 1);
  const id = newRefundId(new Date());
  await sql`
    update wallet_operations
    set id = ${id}, kind = 'REFUND', state = 'CONFIRMED', tx_hash = ${randomHash()}, succeeded = true
    where id = ${operationId}`;
  await sql`
    insert into refunds (
      id, user_id, link_id, network, paid_tx_hash, paid_log_index, to_address, to_source, amount_units
    )
    values (
      ${id}, ${books.merchant.userId}, ${linkId}, ${NETWORK}, ${transfer.txHash}, ${transfer.logIndex}, ${transfer.from},
      'transfer_sender', ${transfer.amountUnits}
    )`;
}

/** Another block holds the same transaction, whose logs come later in it. */
function moved(transfer: SeenTransfer, given: Partial<SeenTransfer> = {}): SeenTransfer {
  return { ...transfer, block: makeBlock(transfer.block.number + 1), ...given };
}

/** Its merchant has decided which link it pays. */
async function readAssigned(books: BooksLab, linkId: string, transfer: SeenTransfer): Promise<void> {
  const { txHash, logIndex } = transfer;
  const { userId } = books.merchant;
  await saveAssignment(sql, { network: NETWORK, txHash, logIndex, userId, linkId, accept: true });
  await read(books, [transfer]);
}

const leftOf = async (linkId: string) =>
  (await listRefundable(sql, linkId)).map(({ leftUnits }) => leftUnits);

test("a transfer refunded for one link has nothing left when assigned to another after a reorganisation", async () => {
  const books = await openMerchant();
  const first = await seedLink(sql, books.merchant);
  const transfer = makeTransfer(books, 101);
  await read(books, [transfer]);
  expect(await linkOf(books, first)).toMatchObject({ status: "PAID" });
  await refundWhole(books, first, transfer);
  await undoAbove(books, 100);
  await cancelLink(sql, { id: first, userId: books.merchant.userId });
  const second = await seedLink(sql, books.merchant);
  await readAssigned(books, second, moved(transfer));
  expect(await linkOf(books, second)).toMatchObject({ status: "PAID" });
  expect(await leftOf(second)).toEqual([0n]);
});

test("a transfer refunded for one link has nothing left when assigned to another at a new position in its block", async () => {
  const books = await openMerchant();
  const first = await seedLink(sql, books.merchant);
  const transfer = makeTransfer(books, 101);
  await read(books, [transfer]);
  await refundWhole(books, first, transfer);
  await undoAbove(books, 100);
  await cancelLink(sql, { id: first, userId: books.merchant.userId });
  const second = await seedLink(sql, books.merchant);
  await readAssigned(books, second, moved(transfer, { logIndex: 7 }));
  expect(await linkOf(books, second)).toMatchObject({ status: "PAID" });
  expect(await leftOf(second)).toEqual([0n]);
});

test("a refund stays with its own transfer: not one that has its position later, nor one of another network", async () => {
  const books = await openMerchant();
  const link = await seedLink(sql, books.merchant);
  const transfer = makeTransfer(books, 101);
  await refundWhole(books, link, transfer);
  const place = { link, txHash: transfer.txHash, status: "ORPHANED" } as const;
  for (const network of ["base", NETWORK, NETWORK] as const) await bookTransfer(books, { ...place, network });
  const gone = await sql<{ id: bigint }[]>`
    select id from transfers where tx_hash = ${place.txHash} order by id`;
  const [elsewhere = "", own = "", later = ""] = gone.map(({ id }) => id.toString());
  const orphaned = async () => {
    const [row] = await sql<{ id: string | null }[]>`
      select orphaned_transfer_id::text as id from refunds where paid_tx_hash = ${place.txHash}`;
    return row?.id;
  };
  await noteOrphanedRefunds(sql, [elsewhere]);
  expect(await orphaned()).toBeNull();
  for (const id of [own, later]) await noteOrphanedRefunds(sql, [id]);
  expect(await orphaned()).toBe(own);
});

test("of a link paid twice, the refunded transfer has nothing left, wherever reorganisations put both", async () => {
  const books = await openMerchant();
  const link = await seedLink(sql, books.merchant);
  const payment = await accepted(books, link);
  // two payers in one transaction
  const paying = makeTransfer(books, 101, { payment, logIndex: 3 });
  const surplus = makeTransfer(books, 101, { block: paying.block, txHash: paying.txHash, logIndex: 5 });
  await read(books, [paying, surplus]);
  await sql`update transfers set link_id = ${link} where tx_hash = ${paying.txHash} and log_index = 5`;
  await refundWhole(books, link, surplus);
  expect(await leftOf(link)).toEqual([UNITS, 0n]);
  // each time the surplus leaves a place that the paying transfer takes, or the other way round
  for (const [first, second] of [
    [5, 7],
    [3, 5],
    [1, 3],
    [9, 11],
  ] as const) {
    await undoAbove(books, 100);
    const block = makeBlock(101);
    await read(books, [
      { ...paying, block, logIndex: first },
      { ...surplus, block, logIndex: second },
    ]);
    await sql`
      update transfers set link_id = ${link}
      where tx_hash = ${paying.txHash} and log_index = ${second} and status <> 'ORPHANED'`;
    expect(await leftOf(link)).toEqual([UNITS, 0n]);
  }
  expect(await findReceipt(sql, { linkId: link })).toMatchObject({ refundedUnits: 0n });
});

test("a refunded payment whose authorization another transaction executes after a reorganisation has nothing left", async () => {
  const books = await openMerchant();
  const link = await seedLink(sql, books.merchant);
  const payment = await accepted(books, link);
  const transfer = makeTransfer(books, 101, { payment });
  const other = makeTransfer(books, 101, { block: transfer.block, logIndex: 2 });
  await read(books, [transfer, other]);
  await sql`update transfers set link_id = ${link} where tx_hash = ${other.txHash}`;
  await refundWhole(books, link, transfer);
  expect(await leftOf(link)).toEqual([0n, UNITS]);
  await undoAbove(books, 100);
  const block = makeBlock(102);
  await read(books, [
    moved(transfer, { block, txHash: randomHash(), logIndex: 4 }),
    moved(other, { block, logIndex: 9 }),
  ]);
  await sql`update transfers set link_id = ${link} where tx_hash = ${other.txHash} and status <> 'ORPHANED'`;
  expect(await leftOf(link)).toEqual([0n, UNITS]);
  expect(await findReceipt(sql, { linkId: link })).toMatchObject({ refundedUnits: UNITS });
});

test("of two transfers of one sender in one transaction, the refunded one is recognised by its order", async () => {
  const books = await openMerchant();
  const link = await seedLink(sql, books.merchant);
  const first = makeTransfer(books, 101, { logIndex: 3 });
  const second = { ...first, logIndex: 4, amountUnits: 2n * UNITS };
  await read(books, [first, second]);
  await sql`update transfers set link_id = ${link} where tx_hash = ${first.txHash}`;
  await refundWhole(books, link, second);
  await undoAbove(books, 100);
  // a block without it comes in between, and is gone as well
  await read(books, [makeTransfer(books, 101)]);
  await undoAbove(books, 100);
  const block = makeBlock(102);
  await read(books, [
    { ...first, block, logIndex: 4 },
    { ...second, block, logIndex: 5 },
  ]);
  await sql`update transfers set link_id = ${link} where tx_hash = ${first.txHash} and status <> 'ORPHANED'`;
  expect(await leftOf(link)).toEqual([UNITS, 0n]);
});
