/** Payments whose transaction is mined and whose money the books do not show: queued again only when the books can't settle them any more. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { requeueUnsettled } from "../../db/payment-queue.ts";
import type { NewPayment } from "../../db/payments.ts";
import { ensureLane, insertRelay, markMined, markSigned } from "../../db/relays.ts";
import { randomAddress, seedLink } from "../support/seed.ts";
import {
  accept,
  type BooksLab,
  linkOf,
  lookBack,
  makeTransfer,
  NETWORK,
  openBooks,
  paymentOf,
  randomHash,
  read,
  undoAbove,
} from "./books-lab.ts";

/** Below the block that the books have reached. */
const MINED_AT = 90n;
let lab: BooksLab;

beforeAll(async () => {
  lab = await openBooks();
});
afterAll(() => lab?.stop());

async function setJoined(isJoined: boolean): Promise<void> {
  await lab.sql`
    update wallets
    set backfilled_at = ${isJoined ? new Date() : null}
    where id = ${lab.merchant.walletId}`;
}

/** Signed, sent and mined, before the books knew anything of it. */
async function relay(payment: NewPayment): Promise<void> {
  const [relayer, txHash] = [randomAddress(), randomHash()];
  const lane = { network: NETWORK, relayer } as const;
  await lab.sql.begin(async (tx) => {
    await ensureLane(tx, lane, 0n);
    const relayId = await insertRelay(tx, {
      ...{ ...lane, nonce: 0n, kind: "PAYMENTS", callTo: randomAddress(), callData: "0x", gasLimit: 1n },
      attempt: { txHash, raw: "0x", maxFeePerGas: 2n, maxPriorityFeePerGas: 1n },
    });
    await markSigned(tx, relayId, [payment.id]);
    const place = { blockNumber: MINED_AT, blockHash: randomHash() };
    await markMined(tx, [{ relayId, txHash, ...place, succeeded: true, gasUsed: 1n, feeWei: 1n }]);
  });
}

async function relayed(authorization: Parameters<typeof accept>[2] = {}): Promise<NewPayment> {
  const payment = await accept(lab, await seedLink(lab.sql, lab.merchant), authorization);
  if (!payment) throw new Error("the payment was not accepted");
  await relay(payment);
  return payment;
}

const requeued = async () => (await requeueUnsettled(lab.sql, NETWORK)).map(({ id }) => id);

test("behavior: to a wallet that joins the books later, it waits for its blocks to be read up, and nobody is blamed", async () => {
  await setJoined(false);
  const payment = await relayed();
  expect(await requeued()).toEqual([]);
  expect(await paymentOf(lab, payment)).toMatchObject({ state: "SIGNED" });
  await setJoined(true);
  await read(lab, [makeTransfer(lab, Number(MINED_AT), { payment })]);
  expect(await requeued()).toEqual([]);
  expect(await linkOf(lab, payment.linkId)).toMatchObject({ status: "PAID" });
  const [row] = await lab.sql<{ reverts: number }[]>`select reverts from payments where id = ${payment.id}`;
  expect(row?.reverts).toBe(0);
});

test("behavior: whose transfer is in the books and not counted yet, the indexer ends it", async () => {
  await setJoined(true);
  const authorization = { payer: randomAddress(), nonce: randomHash() };
  // a stranger's transaction, read before the payment was accepted
  const { payer: from, nonce: authorizationNonce } = authorization;
  await read(lab, [makeTransfer(lab, Number(MINED_AT) - 1, { from, authorizationNonce })]);
  const payment = await relayed(authorization);
  expect(await requeued()).toEqual([]);
  await lookBack(lab);
  expect(await paymentOf(lab, payment)).toMatchObject({ state: "CONFIRMED" });
  expect(await linkOf(lab, payment.linkId)).toMatchObject({ status: "PAID" });
});

test("behavior: of which the books know nothing, although they have read all, is queued again", async () => {
  await setJoined(true);
  const payment = await relayed();
  expect(await requeued()).toEqual([payment.id]);
  expect(await paymentOf(lab, payment)).toMatchObject({ state: "QUEUED" });
});

test("behavior: whose block is reorganised away has all the time again, however long it once waited", async () => {
  await setJoined(true);
  const payment = await accept(lab, await seedLink(lab.sql, lab.merchant));
  if (!payment) throw new Error("the payment was not accepted");
  await lab.sql`update payments set unavailable_since = now() - interval '7 seconds' where id = ${payment.id}`;
  // a stranger's transaction
  await read(lab, [makeTransfer(lab, 98, { payment })]);
  expect(await paymentOf(lab, payment)).toMatchObject({ state: "CONFIRMED" });
  await undoAbove(lab, 97);
  const [row] = await lab.sql<{ state: string; unavailableSince: Date | null }[]>`
    select state, unavailable_since from payments where id = ${payment.id}`;
  expect(row).toEqual({ state: "QUEUED", unavailableSince: null });
});
