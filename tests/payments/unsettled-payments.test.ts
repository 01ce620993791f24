/** Payments whose transaction is mined without a transfer in the ledger: queued again only when the ledger can't settle them any more. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { insertBlocks } from "../../db/ledger/blocks.ts";
import type { NewPayment } from "../../db/payments/accept-payments.ts";
import { markSigned, requeueRelay, requeueUnsettled } from "../../db/payments/queue.ts";
import { markMined } from "../../db/relays/relays.ts";
import { asLeased } from "../support/as-leased.ts";
import { bookTransfer } from "../support/book-transfer.ts";
import {
  accept,
  acceptFacilitated,
  type BooksLab,
  linkOf,
  lookBack,
  makeTransfer,
  NETWORK,
  openBooks,
  paymentOf,
  randomHash,
  read,
  readUpTo,
  signRelay,
  undoAbove,
} from "../support/ledger-lab.ts";
import { randomAddress, seedLink } from "../support/seed.ts";
import { untilBlocked } from "../support/until-blocked.ts";

const ACCEPTED_AT = 80;
/** Below the ledger's cursor. */
const MINED_AT = 90n;
/** The ledger's cursor. */
const READ_TO = 100;
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

/** Signed, sent and mined, before the ledger has anything of it. */
async function relay(payment: NewPayment, blockNumber = MINED_AT, succeeded = true): Promise<bigint> {
  const { relayId, txHash } = await signRelay(lab, payment);
  const place = { blockNumber, blockHash: randomHash() };
  await lab.sql.begin((tx) =>
    markMined(tx, [{ relayId, txHash, ...place, succeeded, gasUsed: 1n, feeWei: 1n }]),
  );
  return relayId;
}

/** Accepted when the ledger's cursor was at this block. */
async function acceptedAt(
  blockNumber: number,
  authorization: Parameters<typeof accept>[2] = {},
): Promise<NewPayment> {
  const linkId = await seedLink(lab.sql, lab.merchant);
  await readUpTo(lab, blockNumber);
  const payment = await accept(lab, linkId, authorization);
  await readUpTo(lab, READ_TO);
  if (!payment) throw new Error("the payment was not accepted");
  return payment;
}

async function relayed(): Promise<NewPayment> {
  const payment = await acceptedAt(ACCEPTED_AT);
  await relay(payment);
  return payment;
}

const requeued = async () => (await requeueUnsettled(lab.sql, NETWORK, 1)).map(({ id }) => id);

test("behavior: a mined payment to a wallet that is not back-filled yet waits for that, and counts no revert", async () => {
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

describe("a mined payment whose transfer is in the ledger and not attributed yet", () => {
  /** An external transaction executed the authorization; our own did nothing. */
  async function executedExternally(acceptedAtBlock: number, isDeep = true): Promise<NewPayment> {
    await setJoined(true);
    const authorization = { payer: randomAddress(), nonce: randomHash() };
    const { payer: from, nonce: authorizationNonce } = authorization;
    const transfer = makeTransfer(lab, Number(MINED_AT) - 1, { from, authorizationNonce });
    await read(lab, [transfer], [], { isDeep });
    // a busy machine accepts it later than a second after the block was made
    const moved =
      await lab.sql`update transfers set block_time = block_time + interval '1 minute' where authorization_nonce = ${authorizationNonce}::bytea`;
    expect(moved.count).toBe(1);
    const payment = await acceptedAt(acceptedAtBlock, authorization);
    await relay(payment);
    expect(await requeued()).toEqual([]);
    await lookBack(lab);
    return payment;
  }

  test("behavior: the indexer settles a mined payment whose transfer it attributes later, if it was accepted in time", async () => {
    const payment = await executedExternally(Number(MINED_AT) - 2);
    expect(await paymentOf(lab, payment)).toMatchObject({ state: "CONFIRMED" });
    expect(await linkOf(lab, payment.linkId)).toMatchObject({ status: "PAID" });
  });

  test("behavior: the indexer fails a mined payment if its transfer's block had been read before it was accepted", async () => {
    const payment = await executedExternally(Number(MINED_AT) - 1);
    expect(await paymentOf(lab, payment)).toMatchObject({ state: "FAILED", reason: "NONCE_USED" });
    expect(await linkOf(lab, payment.linkId)).toMatchObject({ status: "ACTIVE" });
  });

  test("behavior: the indexer fails no mined payment because of such a transfer before that is deep", async () => {
    const payment = await executedExternally(Number(MINED_AT) - 1, false);
    expect(await paymentOf(lab, payment)).toMatchObject({ state: "SIGNED" });
    await lab.sql`update transfers set status = 'CONFIRMED' where status = 'DETECTED'`;
    await lookBack(lab);
    expect(await paymentOf(lab, payment)).toMatchObject({ state: "FAILED", reason: "NONCE_USED" });
  });
});

test("behavior: a mined payment without a transfer in a ledger that has read its block is queued again", async () => {
  await setJoined(true);
  const payment = await relayed();
  expect(await requeued()).toEqual([payment.id]);
  expect(await paymentOf(lab, payment)).toMatchObject({ state: "QUEUED" });
});

test("a mined payment is queued again from its own block on, not while the ledger is still one block below", async () => {
  await setJoined(true);
  const [here, above] = [await acceptedAt(ACCEPTED_AT), await acceptedAt(ACCEPTED_AT)];
  await relay(here, BigInt(READ_TO));
  await relay(above, BigInt(READ_TO + 1));
  // which waits for no depth
  await relay({ ...(await acceptFacilitated(lab)), linkId: "" }, BigInt(READ_TO + 1));
  expect(await requeued()).toEqual([here.id]);
});

test("a mined payment is queued again by its relay only until that is final", async () => {
  await setJoined(true);
  const payment = await acceptedAt(ACCEPTED_AT);
  const relayId = await relay(payment);
  await lab.sql`update relays set state = 'CONFIRMED' where id = ${relayId}`;
  expect(await requeued()).toEqual([]);
  await lab.sql`update relays set state = 'MINED' where id = ${relayId}`;
  expect(await requeued()).toEqual([payment.id]);
});

describe("the revert of a relay", () => {
  afterAll(async () => {
    await lab.sql`delete from blocks`;
  });
  const blameOf = async ({ id }: NewPayment) => {
    const [row] = await lab.sql<{ reverts: number; alone: boolean }[]>`
      select reverts, alone from payments where id = ${id}`;
    return row;
  };
  /** In time, and in a block that the ledger has. */
  const minedAlone = async (succeeded: boolean) => {
    await setJoined(true);
    const payment = await acceptedAt(ACCEPTED_AT);
    const relayId = await relay(payment, MINED_AT, succeeded);
    await lab.sql`delete from blocks`;
    await lab.sql`
      insert into blocks (network, number, hash, parent_hash, block_time)
      select network, block_number, block_hash, block_hash, now() from relays where id = ${relayId}`;
    return { payment, relayId };
  };
  const withMate = async () => {
    const { payment, relayId } = await minedAlone(false);
    const mate = await acceptedAt(ACCEPTED_AT);
    await lab.sql.begin(async (tx) => markSigned(tx, relayId, await asLeased(tx, [mate])));
    return { payment, mate, relayId };
  };

  test("is blamed on none of several payments: each is relayed alone from now on", async () => {
    const { payment, mate } = await withMate();
    const rows = await requeueUnsettled(lab.sql, NETWORK, 1);
    expect(rows.map(({ id, isReverted }) => [id, isReverted]).sort()).toEqual(
      [payment.id, mate.id].sort().map((id) => [id, false]),
    );
    for (const one of [payment, mate]) expect(await blameOf(one)).toEqual({ reverts: 0, alone: true });
  });

  test("is blamed on the payment that it carried alone, whichever left it earlier", async () => {
    const { payment, mate, relayId } = await withMate();
    await lab.sql`update payments set state = 'QUEUED', relay_id = null where id = ${mate.id}`;
    expect(await requeueUnsettled(lab.sql, NETWORK, 1)).toMatchObject([
      { id: payment.id, relayId, isReverted: true },
    ]);
    expect(await blameOf(payment)).toEqual({ reverts: 1, alone: false });
    expect(await blameOf(mate)).toEqual({ reverts: 0, alone: false });
  });

  test("is judged by the attempt that was mined, not by another that left the payment out or was empty", async () => {
    const { payment, relayId } = await minedAlone(true);
    await lab.sql`
      insert into relay_attempts (relay_id, tx_hash, max_fee_per_gas, max_priority_fee_per_gas, is_noop, left_out)
      values
        (${relayId}, ${randomHash()}, 3, 1, true, '{}'),
        (${relayId}, ${randomHash()}, 4, 1, false, ${[payment.id]}::text[])`;
    expect(await requeueUnsettled(lab.sql, NETWORK, 1)).toMatchObject([{ id: payment.id, isReverted: true }]);
  });
});

test.each([
  ["settled", "CONFIRMED"],
  ["signed in another relay", "SIGNED"],
])("a mined payment that is %s at this moment is not queued again", async (_what, state) => {
  await setJoined(true);
  const payment = await relayed();
  const other = await acceptedAt(ACCEPTED_AT);
  const { relayId: newRelay } = await signRelay(lab, other);
  let requeueing: Promise<string[]> | undefined;
  await lab.sql.begin(async (tx) => {
    if (state === "CONFIRMED") await tx`update payments set state = 'CONFIRMED' where id = ${payment.id}`;
    else {
      const [row] = await tx<{ relayId: bigint }[]>`select relay_id from payments where id = ${payment.id}`;
      await requeueRelay(tx, row?.relayId ?? 0n);
      await markSigned(tx, newRelay, await asLeased(tx, [payment]));
    }
    requeueing = requeued();
    await untilBlocked(lab.sql, requeueing);
  });
  expect(await requeueing).toEqual([]);
  expect(await paymentOf(lab, payment)).toMatchObject({ state });
});

test("a lost relay queues again only what no block has settled", async () => {
  const payment = await acceptedAt(ACCEPTED_AT);
  const { relayId } = await signRelay(lab, payment);
  for (const state of ["MINED", "CONFIRMED", "FAILED"]) {
    const reason = state === "FAILED" ? "NONCE_USED" : null;
    await lab.sql`update payments set state = ${state}, reason = ${reason} where id = ${payment.id}`;
    await lab.sql.begin((tx) => requeueRelay(tx, relayId));
    expect(await paymentOf(lab, payment)).toMatchObject({ state });
  }
});

test("behavior: a signed payment outlives a shallow block that cancels its authorization", async () => {
  await setJoined(true);
  const payment = await relayed();
  await read(lab, [], [payment], { isDeep: false });
  expect(await paymentOf(lab, payment)).toMatchObject({ state: "SIGNED" });
  await read(lab, [], [payment]);
  expect(await paymentOf(lab, payment)).toMatchObject({ state: "FAILED", reason: "NONCE_USED" });
});

test("a link's mined payment is queued again once its block is deep, a facilitated one immediately", async () => {
  await setJoined(true);
  const payment = await relayed();
  const facilitated = await acceptFacilitated(lab);
  await relay({ ...facilitated, linkId: "" });
  const depth = READ_TO - Number(MINED_AT) + 1;
  const idsAt = async (depthBlocks: number) =>
    (await requeueUnsettled(lab.sql, NETWORK, depthBlocks)).map(({ id }) => id);
  expect(await idsAt(depth + 1)).toEqual([facilitated.id]);
  expect(await paymentOf(lab, payment)).toMatchObject({ state: "SIGNED" });
  expect(await idsAt(depth)).toEqual([payment.id]);
});

test("a mined payment is queued again from a stored block that is its own, or when that block is no longer stored", async () => {
  await setJoined(true);
  const payment = await relayed();
  const keepBlock = (hash: Hex) =>
    lab.sql.begin((tx) =>
      insertBlocks(tx, NETWORK, [{ number: Number(MINED_AT), hash, parentHash: randomHash(), timeS: 1 }]),
    );
  await keepBlock(randomHash());
  expect(await requeued()).toEqual([]);
  await lab.sql`delete from blocks`;
  const [mined] = await lab.sql<{ blockHash: Hex }[]>`
    select block_hash from relays where id = (select relay_id from payments where id = ${payment.id})`;
  await keepBlock(mined?.blockHash ?? randomHash());
  expect(await requeued()).toEqual([payment.id]);
  await lab.sql`delete from blocks`;
});

test.each([
  ["no revert", "closes at its block's time", 0, 0],
  ["a revert", "is open at its block's time", 1, 1],
] as const)("%s is counted for a mined payment whose window %s", async (_count, _window, openS, reverts) => {
  await setJoined(true);
  const payment = await relayed();
  const timeS = 1_800_000_000;
  const [mined] = await lab.sql<{ blockHash: Hex }[]>`
    select block_hash from relays where id = (select relay_id from payments where id = ${payment.id})`;
  await lab.sql`update payments set valid_before = ${timeS + openS} where id = ${payment.id}`;
  await lab.sql.begin((tx) =>
    insertBlocks(tx, NETWORK, [
      { number: Number(MINED_AT), hash: mined?.blockHash ?? randomHash(), parentHash: randomHash(), timeS },
    ]),
  );
  expect(await requeueUnsettled(lab.sql, NETWORK, 1)).toMatchObject([
    { id: payment.id, isReverted: reverts === 1 },
  ]);
  const [row] = await lab.sql`select reverts from payments where id = ${payment.id}`;
  expect(row).toEqual({ reverts });
  await lab.sql`delete from blocks`;
});

test("a mined payment waits for its own transfer to be attributed, not for another payer's, nonce's or recipient's", async () => {
  await setJoined(true);
  const payment = await relayed();
  const own = { from: payment.payer, nonce: payment.nonce };
  await bookTransfer(lab, own);
  expect(await requeued()).toEqual([]);
  await lab.sql`delete from transfers where from_address = ${payment.payer}`;
  await bookTransfer(lab, { ...own, from: randomAddress() });
  await bookTransfer(lab, { ...own, nonce: randomHash() });
  await bookTransfer(lab, { ...own, to: randomAddress() });
  await bookTransfer(lab, { ...own, network: "base" });
  await bookTransfer(lab, { ...own, link: await seedLink(lab.sql, lab.merchant) });
  await bookTransfer(lab, { ...own, status: "ORPHANED" });
  expect(await requeued()).toEqual([payment.id]);
});

test("a mined payment that an earlier version left BROADCAST is queued again", async () => {
  await setJoined(true);
  const payment = await relayed();
  await lab.sql`update payments set state = 'BROADCAST' where id = ${payment.id}`;
  expect(await requeued()).toEqual([payment.id]);
  expect(await paymentOf(lab, payment)).toMatchObject({ state: "QUEUED" });
});

test("behavior: a payment whose block is reorganised away restarts its retry time", async () => {
  await setJoined(true);
  const payment = await acceptedAt(ACCEPTED_AT);
  await lab.sql`update payments set unavailable_since = now() - interval '7 seconds' where id = ${payment.id}`;
  // an external transaction
  await read(lab, [makeTransfer(lab, 98, { payment })]);
  expect(await paymentOf(lab, payment)).toMatchObject({ state: "CONFIRMED" });
  await undoAbove(lab, 97);
  const [row] = await lab.sql<{ state: string; unavailableSince: Date | null }[]>`
    select state, unavailable_since from payments where id = ${payment.id}`;
  expect(row).toEqual({ state: "QUEUED", unavailableSince: null });
});
