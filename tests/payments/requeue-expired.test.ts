/** Payments of transactions in flight whose authorizations have expired: queued again only when nothing can execute them any more. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import { insertBlocks } from "../../db/ledger/blocks.ts";
import { startCursor } from "../../db/ledger/cursors.ts";
import type { NewPayment } from "../../db/payments/accept-payments.ts";
import { requeueExpired } from "../../db/payments/queue.ts";
import { bookTransfer } from "../support/book-transfer.ts";
import {
  accept,
  type BooksLab,
  NETWORK,
  openBooks,
  paymentOf,
  randomHash,
  signRelay,
} from "../support/ledger-lab.ts";
import { seedLink, seedMerchant } from "../support/seed.ts";
import { untilBlocked } from "../support/until-blocked.ts";

const READ_TO = 100;
const DEPTH = 3;
/** The newest of the blocks that are deep enough. */
const DEEP = READ_TO - DEPTH + 1;
/** Unix seconds. */
const DEEP_TIME_S = 1_800_000_000;
const BLOCK_S = 2;
let lab: BooksLab;

beforeAll(async () => {
  lab = await openBooks({ readTo: READ_TO });
  const numbers = Array.from({ length: 7 }, (_, index) => DEEP - 3 + index);
  const blocks = numbers.map((number) => ({
    ...{ number, hash: randomHash(), parentHash: randomHash() },
    timeS: DEEP_TIME_S + (number - DEEP) * BLOCK_S,
  }));
  await lab.sql.begin((tx) => insertBlocks(tx, NETWORK, blocks));
});
afterAll(() => lab?.stop());
beforeEach(async () => {
  lab.merchant = await seedMerchant(lab.sql);
  await lab.sql`update wallets set backfilled_at = now() where id = ${lab.merchant.walletId}`;
});

/** A payment in one of our transactions that is in no block. */
async function signed({ validBefore = DEEP_TIME_S }: { validBefore?: number } = {}): Promise<NewPayment> {
  const payment = await accept(lab, await seedLink(lab.sql, lab.merchant));
  if (!payment) throw new Error("the payment was not accepted");
  await lab.sql`update payments set valid_before = ${validBefore} where id = ${payment.id}`;
  await signRelay(lab, payment);
  return payment;
}

const requeue = () => lab.sql.begin((tx) => requeueExpired(tx, NETWORK, DEPTH));
const stateOf = async (payment: NewPayment) => (await paymentOf(lab, payment))?.state;
const relayOf = (payment: NewPayment) =>
  lab.sql`select id from relays where id = (select relay_id from payments where id = ${payment.id})`;

test("a payment is queued again once its window has ended at the deepest block, not a second earlier", async () => {
  const [over, lasting] = [await signed(), await signed({ validBefore: DEEP_TIME_S + 1 })];
  expect(await requeue()).toEqual([{ id: over.id }]);
  expect(await stateOf(over)).toBe("QUEUED");
  expect(await stateOf(lasting)).toBe("SIGNED");
  const [row] = await lab.sql`select relay_id from payments where id = ${over.id}`;
  expect(row).toEqual({ relayId: null });
});

test.each(["SIGNED", "BROADCAST"])("a payment whose transaction is %s is queued again", async (state) => {
  const payment = await signed();
  await lab.sql`update relays set state = ${state} where id = (${relayOf(payment)})`;
  expect(await requeue()).toEqual([{ id: payment.id }]);
});

test.each(["MINED", "CONFIRMED", "LOST"])(
  "a payment whose transaction is %s stays bound to it",
  async (state) => {
    const payment = await signed();
    await lab.sql`update relays set state = ${state} where id = (${relayOf(payment)})`;
    expect(await requeue()).toEqual([]);
  },
);

test.each(["MINED", "CONFIRMED"])("a payment that is %s stays settled", async (state) => {
  const payment = await signed();
  await lab.sql`update payments set state = ${state} where id = ${payment.id}`;
  expect(await requeue()).toEqual([]);
  expect(await stateOf(payment)).toBe(state);
});

test("a payment that an earlier version left BROADCAST is queued again", async () => {
  const payment = await signed();
  await lab.sql`update payments set state = 'BROADCAST' where id = ${payment.id}`;
  expect(await requeue()).toEqual([{ id: payment.id }]);
  expect(await stateOf(payment)).toBe("QUEUED");
});

test("a payment does not wait for a wallet or a transfer of its authorization on another network", async () => {
  const payment = await signed();
  await seedMerchant(lab.sql, { network: "base", address: lab.merchant.address });
  await bookTransfer(lab, { from: payment.payer, nonce: payment.nonce });
  await lab.sql`update transfers set network = 'base' where from_address = ${payment.payer}`;
  expect(await requeue()).toEqual([{ id: payment.id }]);
});

test("a payment waits until its payee's wallet is back-filled", async () => {
  const payment = await signed();
  await lab.sql`update wallets set backfilled_at = null where id = ${lab.merchant.walletId}`;
  expect(await requeue()).toEqual([]);
  await lab.sql`update wallets set backfilled_at = now() where id = ${lab.merchant.walletId}`;
  expect(await requeue()).toEqual([{ id: payment.id }]);
});

test("a payment whose transfer the ledger attributes to no link is left to the indexer", async () => {
  const payment = await signed();
  const own = { from: payment.payer, nonce: payment.nonce };
  await bookTransfer(lab, { ...own, status: "ORPHANED" });
  await bookTransfer(lab, own);
  expect(await requeue()).toEqual([]);
  await lab.sql`update transfers set status = 'ORPHANED' where from_address = ${payment.payer}`;
  expect(await requeue()).toEqual([{ id: payment.id }]);
});

test("a payment that the indexer settles while it is being queued again stays settled", async () => {
  const payment = await signed();
  let requeued: Promise<unknown> | undefined;
  await lab.sql.begin(async (tx) => {
    await tx`update payments set state = 'MINED' where id = ${payment.id}`;
    requeued = requeue();
    await untilBlocked(lab.sql, requeued);
  });
  expect(await requeued).toEqual([]);
  expect(await stateOf(payment)).toBe("MINED");
});

test("of a transaction with several payments only those whose window has ended are queued again", async () => {
  const [over, lasting] = [await signed(), await signed({ validBefore: DEEP_TIME_S + 1 })];
  await lab.sql`update payments set relay_id = (${relayOf(over)}) where id = ${lasting.id}`;
  expect(await requeue()).toEqual([{ id: over.id }]);
  expect(await stateOf(lasting)).toBe("SIGNED");
});

test("blocks of another network do not end a payment's window", async () => {
  const lasting = await signed({ validBefore: DEEP_TIME_S + 1 });
  const later = { number: DEEP, hash: randomHash(), parentHash: randomHash(), timeS: DEEP_TIME_S + 100 };
  await lab.sql.begin((tx) => insertBlocks(tx, "base", [later]));
  await startCursor(lab.sql, "base", { number: READ_TO, hash: randomHash() });
  expect(await requeue()).toEqual([]);
  expect(await stateOf(lasting)).toBe("SIGNED");
});
