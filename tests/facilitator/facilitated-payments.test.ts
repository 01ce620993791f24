/** Facilitated payments in the database: which rows each statement takes, and which it leaves. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { newPaymentId } from "../../core/domain/ids.ts";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import {
  confirmFacilitatedPayments,
  findUnsettledFacilitated,
  insertFacilitatedPayments,
  listRelayers,
  loadFacilitatedPayments,
  type NewFacilitatedPayment,
  requeueFacilitatedPayment,
} from "../../db/payments/facilitated-payments.ts";
import { ensureLane } from "../../db/relays/nonces.ts";
import { accept, type BooksLab, NETWORK, openBooks, randomHash } from "../support/ledger-lab.ts";
import { randomAddress, seedLink, seedMerchant } from "../support/seed.ts";

const TOKEN = NETWORKS[NETWORK].usdc.address;
let lab: BooksLab;

beforeAll(async () => {
  lab = await openBooks();
});
afterAll(() => lab?.stop());

const make = (change: Partial<NewFacilitatedPayment> = {}): NewFacilitatedPayment => ({
  ...{ id: newPaymentId(), facilitatorUserId: lab.merchant.userId, facilitatorKeyId: "key_test" },
  ...{ network: NETWORK, token: TOKEN, payer: randomAddress(), payerKind: "EOA" },
  ...{ recipient: randomAddress(), amountUnits: 1_000n, validAfter: 0n, validBefore: 9_999_999_999n },
  ...{ nonce: randomHash(), signature: "0x01", idempotencyKey: null, requestId: null },
  ...change,
});

async function inserted(change: Partial<NewFacilitatedPayment> = {}): Promise<NewFacilitatedPayment> {
  const payment = make(change);
  expect(await insertFacilitatedPayments(lab.sql, [payment])).toEqual(new Set([payment.id]));
  return payment;
}

test("an authorization is stored once, whichever key submits it again", async () => {
  const first = await inserted();
  const again = make({ payer: first.payer, nonce: first.nonce, facilitatorKeyId: "key_other" });
  const [otherNonce, otherPayer] = [make({ payer: first.payer }), make({ nonce: first.nonce })];
  expect(await insertFacilitatedPayments(lab.sql, [again, otherNonce, otherPayer])).toEqual(
    new Set([otherNonce.id, otherPayer.id]),
  );
});

describe("a facilitated payment that is submitted again", () => {
  const failed = async () => {
    const { id } = await inserted();
    await lab.sql`update payments set state = 'FAILED', reason = 'NONCE_USED' where id = ${id}`;
    return id;
  };
  const requeue = (id: string) => requeueFacilitatedPayment(lab.sql, id, make({ amountUnits: 2_000n }));

  test("is queued again with the retry's data if it has failed", async () => {
    const [id, other] = [await failed(), await failed()];
    expect(await requeue(id)).toBe(true);
    const rows = await lab.sql<object[]>`
      select id, state, reason, amount_units from payments where id in (${id}, ${other}) order by state`;
    expect([...rows]).toEqual([
      { id: other, state: "FAILED", reason: "NONCE_USED", amountUnits: 1_000n },
      { id, state: "QUEUED", reason: null, amountUnits: 2_000n },
    ]);
  });

  test.each(["QUEUED", "SIGNED", "BROADCAST", "MINED", "CONFIRMED"])(
    "is left unchanged while it is %s",
    async (state) => {
      const id = await failed();
      await lab.sql`update payments set state = ${state}, reason = null where id = ${id}`;
      expect(await requeue(id)).toBe(false);
    },
  );

  test("is left unchanged while a transaction carries it", async () => {
    const id = await failed();
    await lab.sql`update payments set relay_id = 7 where id = ${id}`;
    expect(await requeue(id)).toBe(false);
  });

  test("is never a payment of a link", async () => {
    const payment = await accept(lab, await seedLink(lab.sql, lab.merchant));
    if (!payment) throw new Error("the payment was not accepted");
    await lab.sql`update payments set state = 'FAILED', reason = 'NONCE_USED' where id = ${payment.id}`;
    expect(await requeue(payment.id)).toBe(false);
  });
});

describe("payments of authorizations", () => {
  const load = (authorizations: readonly { payer: Hex; nonce: Hex }[], token = TOKEN) =>
    loadFacilitatedPayments(lab.sql, { network: NETWORK, token }, authorizations);

  test("are found by payer and nonce together, in the order of their ids", async () => {
    const all = [await inserted(), await inserted(), await inserted()];
    const [first, second, third] = all as [
      NewFacilitatedPayment,
      NewFacilitatedPayment,
      NewFacilitatedPayment,
    ];
    const found = await load([third, first, second]);
    expect(found.map(({ id }) => id)).toEqual(all.map(({ id }) => id).sort());
    expect(found.find(({ id }) => id === first.id)).toEqual({
      ...{ id: first.id, payer: first.payer, nonce: first.nonce },
      ...{ recipient: first.recipient, amountUnits: 1_000n },
      ...{
        wasSettled: false,
        wasPublic: false,
        relayHashes: [],
        acceptedAtMs: expect.any(Number),
        acceptedBlock: 100,
      },
    });
    expect(await load([{ payer: first.payer, nonce: second.nonce }])).toEqual([]);
    expect(await load([])).toEqual([]);
  });

  test("are those of the requested network and token", async () => {
    const here = await inserted();
    const there = make({ network: "base", token: NETWORKS.base.usdc.address, payer: here.payer });
    const twin = { ...there, id: newPaymentId(), nonce: here.nonce };
    const sibling = make({ token: randomAddress(), payer: here.payer, nonce: here.nonce });
    await insertFacilitatedPayments(lab.sql, [there, twin, sibling]);
    expect((await load([here])).map(({ id }) => id)).toEqual([here.id]);
    expect((await load([here], sibling.token)).map(({ id }) => id)).toEqual([sibling.id]);
    expect(await load([there])).toEqual([]);
  });

  test("of a link are not facilitated", async () => {
    const payment = await accept(lab, await seedLink(lab.sql, lab.merchant));
    if (!payment) throw new Error("the payment was not accepted");
    expect(await load([payment])).toEqual([]);
  });

  test("are locked until the transaction ends", async () => {
    const payment = await inserted();
    const free = () => lab.sql`select from payments where id = ${payment.id} for update skip locked`;
    await lab.sql.begin(async (tx) => {
      await loadFacilitatedPayments(tx, { network: NETWORK, token: TOKEN }, [payment]);
      expect(await free()).toHaveLength(0);
    });
    expect(await free()).toHaveLength(1);
  });
});

test("an authorization is accepted at the height of its own network's ledger", async () => {
  await lab.sql`
    insert into cursors (network, number, hash, head_number) values ('base', 500, ${randomHash()}, 500)`;
  const here = await inserted();
  const there = await inserted({ network: "base", token: NETWORKS.base.usdc.address });
  const rows = await lab.sql<{ acceptedBlock: bigint }[]>`
    select accepted_block from payments where id in (${here.id}, ${there.id}) order by accepted_block`;
  expect(rows.map(({ acceptedBlock }) => Number(acceptedBlock))).toEqual([100, 500]);
});

test("unsettled payments are those that no block has settled, to no wallet of this network, and of no link", async () => {
  const [open, failed, mined] = [await inserted(), await inserted(), await inserted()];
  await lab.sql`update payments set state = 'FAILED', reason = 'EXPIRED_TRANSFER' where id = ${failed.id}`;
  await lab.sql`update payments set state = 'MINED' where id = ${mined.id}`;
  const [elsewhere, unknown] = [await seedMerchant(lab.sql, { network: "base" }), randomAddress()];
  const toOther = await inserted({ recipient: elsewhere.address });
  const toWallet = await inserted({ recipient: lab.merchant.address });
  const ofLink = await accept(lab, await seedLink(lab.sql, lab.merchant));
  if (!ofLink) throw new Error("the payment was not accepted");
  await lab.sql`update payments set recipient = ${unknown} where id = ${ofLink.id}`;
  const all = [open, failed, mined, toOther, toWallet, ofLink];
  const found = await findUnsettledFacilitated(lab.sql, { network: NETWORK, token: TOKEN }, all);
  expect(found.map(({ nonce }) => nonce).sort()).toEqual([open.nonce, failed.nonce, toOther.nonce].sort());
});

test("mined payments are confirmed up to a block, each network separately", async () => {
  const mined = async (blockNumber: number, change: Partial<NewFacilitatedPayment> = {}) => {
    const { id } = await inserted(change);
    await lab.sql`update payments set state = 'MINED', block_number = ${blockNumber} where id = ${id}`;
    return id;
  };
  const [below, at] = [await mined(99), await mined(100)];
  const above = await mined(101);
  const elsewhere = await mined(100, { network: "base", token: NETWORKS.base.usdc.address });
  const { id: sent } = await inserted();
  await lab.sql`update payments set state = 'BROADCAST', block_number = 100 where id = ${sent}`;
  const confirmed = await confirmFacilitatedPayments(lab.sql, { network: NETWORK, depthNumber: 100 });
  expect(confirmed.sort()).toEqual([below, at].sort());
  const rows = await lab.sql`
    select id from payments where id in (${above}, ${elsewhere}, ${sent}) and state = 'CONFIRMED'`;
  expect(rows).toHaveLength(0);
});

test("a relayer on two networks is listed once", async () => {
  const relayer = randomAddress();
  await ensureLane(lab.sql, { network: NETWORK, relayer }, 0n);
  await ensureLane(lab.sql, { network: "base", relayer }, 0n);
  expect(await listRelayers(lab.sql)).toEqual([relayer]);
});
