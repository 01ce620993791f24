/** A signed refund whose payment leaves the chain before it is sent: it waits for the payment, and is not sent without it. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { newRefundId } from "../../core/domain/ids.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { confirmDeepOperations } from "../../db/wallet-ops/confirm-operations.ts";
import { leaseQueuedOperations, markOperationsSigned } from "../../db/wallet-ops/queue.ts";
import { reopenOperations } from "../../db/wallet-ops/reorganised-operations.ts";
import { recordOperationEvents, settleOperations } from "../../db/wallet-ops/settlement.ts";
import type { SeenTransfer } from "../../indexer/source/decode-logs.ts";
import { type BooksLab, makeBlock, makeTransfer, NETWORK, read, undoAbove } from "../support/ledger-lab.ts";
import { eventOf, type Made, type OperationLab, openOperationLab } from "../support/operation-lab.ts";
import { randomAddress, seedLink, seedMerchant } from "../support/seed.ts";

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

/** Signed, and not sent yet. Of the wallet of `owner`, or of one of its own. */
async function queueRefund(
  { books, linkId, transfer }: Paid,
  { owner, nonce = 0n, units = transfer.amountUnits }: { owner?: Made; nonce?: bigint; units?: bigint } = {},
): Promise<string> {
  return (await queueRefundOf({ books, linkId, transfer }, { owner, nonce, units })).id;
}

async function queueRefundOf(
  { books, linkId, transfer }: Paid,
  { owner, nonce, units }: { owner: Made | undefined; nonce: bigint; units: bigint },
): Promise<Made> {
  const made = await lab.queued(owner, nonce);
  const id = newRefundId(new Date());
  await sql`update wallet_operations set id = ${id}, kind = 'REFUND' where id = ${made.id}`;
  await sql`
    insert into refunds (
      id, user_id, link_id, network, paid_tx_hash, paid_log_index, to_address, to_source, amount_units
    )
    values (
      ${id}, ${books.merchant.userId}, ${linkId}, ${NETWORK}, ${transfer.txHash}, ${transfer.logIndex}, ${transfer.from},
      'transfer_sender', ${units}
    )`;
  return { ...made, id };
}

async function lease(): Promise<string[]> {
  const leased = await leaseQueuedOperations(sql, NETWORK, { limit: 10, leaseMs: 0 });
  return leased.map(({ id }) => id);
}

test("a queued refund is neither taken nor signed while its payment is off the chain, but both once that is back", async () => {
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

test("a refund is not sent if its payment comes back with less than it sends, but is with the same amount", async () => {
  const paid = await makePaidLink();
  const { amountUnits } = paid.transfer;
  const id = await queueRefund(paid);
  const relayId = await lab.makeRelay("SIGNED");
  await undoAbove(paid.books, 100);
  await read(paid.books, [{ ...paid.transfer, block: makeBlock(101), amountUnits: amountUnits - 1n }]);
  expect(await lease()).not.toContain(id);
  expect(await markOperationsSigned(sql, relayId, [id])).toEqual([]);
  await undoAbove(paid.books, 100);
  await read(paid.books, [{ ...paid.transfer, block: makeBlock(101), logIndex: 4 }]);
  expect(await lease()).toContain(id);
});

test("a refund is not sent out of another payment that has taken the position of its own", async () => {
  const paid = await makePaidLink();
  const id = await queueRefund(paid);
  await undoAbove(paid.books, 100);
  await read(paid.books, [{ ...paid.transfer, block: makeBlock(101), from: randomAddress() }]);
  expect(await lease()).not.toContain(id);
});

test("a refund whose payment is back in a block waits until that is deep enough", async () => {
  const paid = await makePaidLink();
  const id = await queueRefund(paid);
  await undoAbove(paid.books, 100);
  await read(paid.books, [{ ...paid.transfer, block: makeBlock(101), logIndex: 6 }], [], { isDeep: false });
  expect(await lease()).not.toContain(id);
  await sql`
    update transfers set status = 'CONFIRMED', confirmed_at = now()
    where tx_hash = ${paid.transfer.txHash} and status = 'DETECTED'`;
  expect(await lease()).toContain(id);
});

test.each(["DETECTED", "ORPHANED"])(
  "a refund of a payment that is %s is neither taken nor signed",
  async (status) => {
    const paid = await makePaidLink();
    const id = await queueRefund(paid);
    await sql`update transfers set status = ${status} where tx_hash = ${paid.transfer.txHash}`;
    expect(await lease()).not.toContain(id);
    expect(await markOperationsSigned(sql, await lab.makeRelay("SIGNED"), [id])).toEqual([]);
  },
);

test("a refund of a payment that is not in the ledger is not sent", async () => {
  const paid = await makePaidLink();
  const id = await queueRefund(paid);
  await sql`delete from transfers where tx_hash = ${paid.transfer.txHash}`;
  expect(await lease()).not.toContain(id);
});

test("a refund waits while an earlier failed one of the same money may succeed after a reorganisation", async () => {
  const paid = await makePaidLink();
  const units = paid.transfer.amountUnits;
  const earlier = await queueRefundOf(paid, { owner: undefined, nonce: 0n, units });
  const event = eventOf(earlier, { blockNumber: 102, succeeded: false, failure: "INSUFFICIENT_FUNDS" });
  const run = async (blockNumber: number, succeeded: boolean) => {
    const given = { ...event, blockNumber, succeeded };
    await recordOperationEvents(sql, NETWORK, [given]);
    await settleOperations(sql, NETWORK, [given]);
    await confirmDeepOperations(sql, { network: NETWORK, depthNumber: blockNumber });
  };
  const relayId = await lab.makeRelay("BROADCAST");
  expect(await markOperationsSigned(sql, relayId, [earlier.id])).toEqual([earlier.id]);
  await run(102, false);
  const id = await queueRefund(paid, { owner: earlier, nonce: 1n });
  expect(await lease()).toContain(id);
  await reopenOperations(sql, { network: NETWORK, ancestor: 101 });
  expect(await lease()).not.toContain(id);
  expect(await markOperationsSigned(sql, await lab.makeRelay("SIGNED"), [id])).toEqual([]);
  await run(103, false);
  expect(await lease()).toContain(id);
  await reopenOperations(sql, { network: NETWORK, ancestor: 101 });
  await run(104, true);
  expect(await lease()).not.toContain(id);
});

test("two parts of one payment are both sent", async () => {
  const paid = await makePaidLink();
  const part = paid.transfer.amountUnits / 2n;
  const ids = [await queueRefund(paid, { units: part }), await queueRefund(paid, { units: part })];
  expect(await lease()).toEqual(expect.arrayContaining(ids));
  const other = await makePaidLink();
  const [of, elsewhere] = [await queueRefund(other), await queueRefund(paid, { units: part })];
  // the same log index in another transaction is another payment
  expect(await lease()).toContain(of);
  expect(await lease()).not.toContain(elsewhere);
});

test("a refund depends only on its own payment's log, transaction and network", async () => {
  const small = await makePaidLink();
  const units = small.transfer.amountUnits;
  const beside = makeTransfer(small.books, 101, {
    block: small.transfer.block,
    txHash: small.transfer.txHash,
  });
  const large = { ...small, transfer: { ...beside, logIndex: 5, amountUnits: 3n * units } };
  await read(small.books, [large.transfer]);
  const ids = [await queueRefund(small), await queueRefund(large)];
  expect(await lease()).toEqual(expect.arrayContaining(ids));
  // of more than the payment, though not than the one beside it
  const other = await queueRefund(small, { units: 2n * units });
  await sql`update wallet_operations set state = 'CANCELLED' where id = ${ids[0] ?? ""}`;
  expect(await lease()).not.toContain(other);
  await sql`update wallet_operations set state = 'CANCELLED' where id = ${other}`;
  const [one, elsewhere] = [await queueRefund(small), await queueRefund(small)];
  expect(await lease()).not.toContain(one);
  await sql`update refunds set network = 'base' where id = ${elsewhere}`;
  const leased = await lease();
  expect(leased).toContain(one);
  expect(leased).not.toContain(elsewhere);
});
