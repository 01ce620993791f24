/** Which attributions a rebuild keeps: those on which transfer, history, link and payment agree. Each condition with a row that breaks it. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import {
  findDecidedLinks,
  findDecisions,
  findTaggedWallets,
  keepDecisions,
  matchPastClaims,
  nameOldDecisions,
} from "../../db/ledger/rebuild-attributions.ts";
import type { NewPayment } from "../../db/payments/accept-payments.ts";
import { type BookedTransfer, bookTransfer } from "../support/book-transfer.ts";
import {
  accepted,
  acceptFacilitated,
  type BooksLab,
  claim,
  makeTransfer,
  NETWORK,
  openBooks,
  randomHash,
  UNITS,
} from "../support/ledger-lab.ts";
import { seedLink, seedMerchant } from "../support/seed.ts";
import { insertHistory } from "../transactions/history.ts";

let lab: BooksLab;
let link: string;

beforeAll(async () => {
  lab = await openBooks({ readTo: 100 });
});
afterAll(() => lab?.stop());
beforeEach(async () => {
  lab.merchant = await seedMerchant(lab.sql);
  link = await seedLink(lab.sql, lab.merchant);
});

type Row = { type?: "RECEIVE" | "PAYMENT_LINK" | "SEND"; linkId?: string | null };

/** A transfer that pays the link, and a history row that says so, unless told otherwise. */
async function decided(given: BookedTransfer = {}, row: Row = {}): Promise<Hex> {
  const { sql, merchant } = lab;
  const txHash = randomHash();
  const transfer = { link, pays: true, settledBy: "amount" as const, txHash, ...given };
  await bookTransfer({ sql, merchant }, transfer);
  const type = row.type ?? (transfer.pays ? "PAYMENT_LINK" : "RECEIVE");
  const linkId = row.linkId === undefined ? transfer.link : row.linkId;
  const [id = ""] = await insertHistory(sql, merchant.userId, [{ type, linkId }]);
  await sql`
    update transactions set transfer_id = (select id from transfers where tx_hash = ${txHash}) where id = ${id}`;
  return txHash;
}

const set = (txHash: Hex, given: object) =>
  lab.sql`update transfers set ${lab.sql(given)} where tx_hash = ${txHash}`;

/** The kept decision of this transfer. */
async function keptOf(txHash: Hex) {
  const [transfer] = await lab.sql<{ blockHash: Hex }[]>`
    select block_hash from transfers where tx_hash = ${txHash}`;
  return lab.sql.begin(async (tx) => {
    await keepDecisions(tx, NETWORK);
    const decisions = await findDecisions(tx, { from: 0, to: 1_000 });
    return decisions.find(({ blockHash }) => blockHash === transfer?.blockHash);
  });
}

const isKept = async (txHash: Hex) => (await keptOf(txHash)) !== undefined;

describe("an attribution is kept", () => {
  test("when transfer and history agree on the link, and on whether it pays", async () => {
    expect(await keptOf(await decided())).toMatchObject({ linkId: link, pays: true, settledBy: "amount" });
    expect(await isKept(await decided({ pays: false }))).toBe(true);
    expect(await isKept(await decided({ link: null, pays: false, settledBy: null }))).toBe(true);
  });

  test("not without a history row of its receiver, nor with one that contradicts it", async () => {
    const other = await seedLink(lab.sql, lab.merchant);
    expect(await isKept(await decided({ pays: false }, { type: "SEND" }))).toBe(false);
    expect(await isKept(await decided({ pays: false }, { linkId: other }))).toBe(false);
    expect(await isKept(await decided({ pays: false }, { linkId: null }))).toBe(false);
    expect(await isKept(await decided({ pays: false }, { type: "PAYMENT_LINK" }))).toBe(false);
    expect(await isKept(await decided({}, { type: "RECEIVE" }))).toBe(false);
  });

  test("not of a transfer that is orphaned or on another network", async () => {
    expect(await isKept(await decided({ status: "ORPHANED" }))).toBe(false);
    const free = { link: null, pays: false, settledBy: null };
    expect(await isKept(await decided({ ...free, network: "base" }))).toBe(false);
    expect(await isKept(await decided(free))).toBe(true);
  });

  test("not when the link belongs to another wallet or network", async () => {
    const stranger = await seedMerchant(lab.sql);
    const elsewhere = await seedMerchant(lab.sql, { network: "base", address: lab.merchant.address });
    for (const of of [stranger, elsewhere])
      expect(await isKept(await decided({ link: await seedLink(lab.sql, of), pays: false }))).toBe(false);
  });

  test("of another amount than the link's only if its merchant decided so, or if it does not pay", async () => {
    const units = UNITS + 1n;
    expect(await isKept(await decided({ units }))).toBe(false);
    await lab.sql`update transfers set pays = false`;
    expect(await isKept(await decided({ units, settledBy: "merchant" }))).toBe(true);
    expect(await isKept(await decided({ units, pays: false }))).toBe(true);
    await lab.sql`update transfers set pays = false`;
    await lab.sql`update payment_links set pay_amount_units = ${units} where id = ${link}`;
    expect(await isKept(await decided({ units }))).toBe(true);
  });
});

describe("an attribution by a payment is kept", () => {
  async function paid(given: Partial<BookedTransfer> = {}): Promise<{ txHash: Hex; payment: NewPayment }> {
    const payment = await accepted(lab, link);
    const transfer = { from: payment.payer, nonce: payment.nonce, settledBy: "authorization" as const };
    const txHash = await decided({ ...transfer, ...given });
    await set(txHash, { payment_id: payment.id });
    return { txHash, payment };
  }
  const settle = ({ txHash, payment }: Awaited<ReturnType<typeof paid>>, given: object = {}) =>
    lab.sql`
      update payments
      set ${lab.sql({ state: "CONFIRMED", tx_hash: txHash, log_index: 1, block_number: 99, ...given })}
      where id = ${payment.id}`;

  test("when the payment was settled by this very transfer", async () => {
    const settled = await paid();
    await settle(settled);
    expect(await keptOf(settled.txHash)).toMatchObject({
      paymentId: settled.payment.id,
      settlesPayment: true,
    });
    await settle(settled, { log_index: 2 });
    expect(await isKept(settled.txHash)).toBe(false);
    await settle(settled, { tx_hash: randomHash() });
    expect(await isKept(settled.txHash)).toBe(false);
  });

  test("not of another link, payer or nonce", async () => {
    const settled = await paid();
    await settle(settled);
    const { txHash, payment } = settled;
    for (const otherwise of [{ from_address: lab.merchant.address }, { authorization_nonce: randomHash() }]) {
      await set(txHash, otherwise);
      expect(await isKept(txHash)).toBe(false);
      await set(txHash, { from_address: payment.payer, authorization_nonce: payment.nonce });
    }
    await settle(settled, { link_id: await seedLink(lab.sql, lab.merchant) });
    expect(await isKept(txHash)).toBe(false);
    await settle(settled, { link_id: link });
    expect(await isKept(txHash)).toBe(true);
  });

  test("of a payment that failed only because another transfer paid the link", async () => {
    const failed = await paid();
    const state = { state: "FAILED", reason: "EXPIRED_TRANSFER" };
    await lab.sql`update payments set ${lab.sql(state)} where id = ${failed.payment.id}`;
    expect(await isKept(failed.txHash)).toBe(false);
    await set(failed.txHash, { pays: false });
    await lab.sql`update transactions set type = 'RECEIVE' where link_id = ${link} and type = 'PAYMENT_LINK'`;
    expect(await keptOf(failed.txHash)).toMatchObject({ settlesPayment: false });
  });
});

describe("an attribution by other evidence than a payment of a link", () => {
  /** A transfer that executes the authorization of a payment which it is not attributed to. */
  async function beside(): Promise<{ txHash: Hex; payment: NewPayment }> {
    const payment = await accepted(lab, link);
    const txHash = await decided({ from: payment.payer, nonce: payment.nonce });
    return { txHash, payment };
  }
  const setPayment = ({ id }: NewPayment, given: object) =>
    lab.sql`update payments set ${lab.sql(given)} where id = ${id}`;

  test("is decided again where its authorization belongs to one of our payments", async () => {
    const { txHash } = await beside();
    expect(await isKept(txHash)).toBe(false);
  });

  test("is kept where it belongs to a payment that a facilitator's client submitted", async () => {
    const { payer: from, nonce } = await acceptFacilitated(lab);
    expect(await isKept(await decided({ from, nonce, link: null, pays: false, settledBy: null }))).toBe(true);
  });

  test.each([
    ["failed", { state: "FAILED", reason: "EXPIRED_TRANSFER" }],
    ["has another payer", { payer: `0x${"77".repeat(20)}` }],
    ["has another nonce", { nonce: `0x${"77".repeat(32)}` }],
    ["is of another token", { token: `0x${"77".repeat(20)}` }],
    ["is of another network", { network: "base" }],
  ])("is kept where that payment %s", async (_, given) => {
    const { txHash, payment } = await beside();
    await setPayment(payment, given);
    expect(await isKept(txHash)).toBe(true);
  });
});

describe("links that others cannot pay", () => {
  const taken = (transfers: { txHash?: Hex; to?: Hex; amountUnits?: bigint }[]) =>
    lab.sql.begin(async (tx) => {
      await keepDecisions(tx, NETWORK);
      const given = transfers.map(
        ({ txHash = randomHash(), to = lab.merchant.address, amountUnits = UNITS }) => ({
          ...{ txHash, to, amountUnits },
        }),
      );
      return (await findDecidedLinks(tx, NETWORK, given)).map(({ linkId }) => linkId);
    });

  test("are paid by a kept decision, to the same wallet, with an amount that the link asks for", async () => {
    await decided();
    const stranger = await seedMerchant(lab.sql);
    expect(await taken([{}])).toEqual([link]);
    expect(await taken([{ to: stranger.address }])).toEqual([]);
    expect(await taken([{ amountUnits: UNITS + 1n }])).toEqual([]);
    expect(await taken([{ amountUnits: UNITS + 1n }, { to: stranger.address }])).toEqual([]);
    await lab.sql`update payment_links set pay_amount_units = ${UNITS + 1n} where id = ${link}`;
    expect(await taken([{ amountUnits: UNITS + 1n }])).toEqual([link]);
    await lab.sql`update transfers set pays = false`;
    await lab.sql`update transactions set type = 'RECEIVE'`;
    expect(await taken([{}])).toEqual([]);
  });

  test("include those to which the merchant assigned one of these transactions on this network", async () => {
    await decided({ units: UNITS * 2n, settledBy: "merchant" });
    const [assigned, elsewhere] = [randomHash(), randomHash()];
    const assign = (network: string, txHash: Hex) => lab.sql`
      insert into assignments ${lab.sql({ network, tx_hash: txHash, log_index: 1, link_id: link, user_id: lab.merchant.userId })}`;
    await assign(NETWORK, assigned);
    await assign("base", elsewhere);
    const amountUnits = UNITS * 2n;
    expect(await taken([{ amountUnits, txHash: assigned }])).toEqual([link]);
    expect(await taken([{ amountUnits, txHash: elsewhere }])).toEqual([]);
    expect(await taken([{ amountUnits }])).toEqual([]);
  });

  test("decisions are found by the range of their blocks", async () => {
    const txHash = await decided();
    const find = (from: number, to: number) =>
      lab.sql.begin(async (tx) => {
        await keepDecisions(tx, NETWORK);
        return (await findDecisions(tx, { from, to })).filter(({ linkId }) => linkId === link).length;
      });
    expect([await find(99, 99), await find(100, 101), await find(97, 98)]).toEqual([1, 0, 0]);
    expect(await isKept(txHash)).toBe(true);
  });

  test("tags lead to the wallets of their links, and other bytes to none", async () => {
    const [row] = await lab.sql<
      { tag: Hex }[]
    >`select hex_of(tag) as tag from payment_links where id = ${link}`;
    await seedLink(lab.sql, lab.merchant);
    const tag = row?.tag ?? "0x";
    expect(await findTaggedWallets(lab.sql, NETWORK, [tag, randomHash()])).toEqual([
      { tag, recipient: lab.merchant.address },
    ]);
  });
});

describe("a matched claim", () => {
  async function matched(given: BookedTransfer = {}) {
    const transfer = makeTransfer(lab, 99);
    const id = await claim(lab, link, transfer);
    await lab.sql`update claims set state = 'MATCHED' where id = ${id}`;
    const booked = { link, txHash: transfer.txHash, from: transfer.from, ...given };
    await bookTransfer(lab, booked);
    return id;
  }

  /** What a rebuild makes of these claims, which it has opened anew; `state` is what it has made of them since. */
  const rematch = (ids: readonly string[], state = "OPEN") =>
    lab.sql.begin(async (tx) => {
      await keepDecisions(tx, NETWORK);
      await tx`update claims set state = ${state} where id = any(${[...ids]}::text[])`;
      await matchPastClaims(tx);
      const rows = await tx<{ id: string; state: string }[]>`
        select id, state from claims where id = any(${[...ids]}::text[])`;
      return ids.map((id) => rows.find((row) => row.id === id)?.state);
    });

  test("is matched again where its sender's transfer is still its link's", async () => {
    const other = await seedLink(lab.sql, lab.merchant);
    const ids = [
      await matched(),
      await matched({ link: other }),
      await matched({ link: null }),
      await matched({ from: lab.merchant.address }),
      await matched({ status: "ORPHANED" }),
      await matched({ network: "base" }),
      await matched({ txHash: randomHash() }),
    ];
    expect(await rematch(ids)).toEqual(["MATCHED", "OPEN", "OPEN", "OPEN", "OPEN", "OPEN", "OPEN"]);
  });

  test("that was not matched before, or is not open, is left unchanged", async () => {
    const [open, rejected] = [await matched(), await matched()];
    await lab.sql`update claims set state = 'OPEN' where id = ${open}`;
    expect(await rematch([open])).toEqual(["OPEN"]);
    expect(await rematch([rejected], "REJECTED")).toEqual(["REJECTED"]);
  });

  test("of another network is ignored", async () => {
    const id = await matched({ network: "base" });
    await lab.sql`update claims set network = 'base' where id = ${id}`;
    expect(await rematch([id])).toEqual(["OPEN"]);
  });
});

describe("evidence that was not recorded", () => {
  const named = async (txHash: Hex) => {
    await lab.sql.begin((tx) => nameOldDecisions(tx, NETWORK));
    const [row] = await lab.sql<{ transfer: string | null; history: string | null; link: string | null }[]>`
      select transfer.settled_by as transfer, history.settled_by as history, link.settled_by as link
      from transfers transfer
      left join transactions history on history.transfer_id = transfer.id
      left join payment_links link on link.id = transfer.link_id
      where transfer.tx_hash = ${txHash}`;
    return row;
  };
  const all = (by: string | null) => ({ transfer: by, history: by, link: by });

  test("is a payment, else a claim, else the amount, in the transfer, its history row and the link it pays", async () => {
    const [byAmount, byClaim, byPayment] = [
      await seedLink(lab.sql, lab.merchant),
      link,
      await seedLink(lab.sql, lab.merchant),
    ];
    const amount = await decided({ link: byAmount, settledBy: null });
    const claimed = await decided({ link: byClaim, settledBy: null });
    const claimId = await claim(lab, link, makeTransfer(lab, 99));
    await lab.sql`delete from transactions where claim_id = ${claimId}`;
    await lab.sql`update transactions set claim_id = ${claimId} where link_id = ${byClaim}`;
    const paid = await decided({ link: byPayment, settledBy: null });
    await set(paid, { payment_id: "pay_1" });
    expect(await named(amount)).toEqual(all("amount"));
    expect(await named(claimed)).toEqual(all("early_claim"));
    expect(await named(paid)).toEqual(all("authorization"));
  });

  test("is not written to the sender's row if the sender is a user as well", async () => {
    const txHash = await decided({ settledBy: null });
    const stranger = await seedMerchant(lab.sql);
    const [sent = ""] = await insertHistory(lab.sql, stranger.userId, [{ type: "SEND" }]);
    await lab.sql`
      update transactions set transfer_id = (select id from transfers where tx_hash = ${txHash}) where id = ${sent}`;
    await named(txHash);
    const [row] = await lab.sql<{ by: string | null }[]>`
      select settled_by as by from transactions where id = ${sent}`;
    expect(row?.by).toBeNull();
  });

  test("is not inferred where it exists, nor for a transfer that is orphaned, unattributed, sent or on another network", async () => {
    const others = [
      await decided({ settledBy: "tag" }),
      await decided({ status: "ORPHANED", settledBy: null }),
      await decided({ link: null, pays: false, settledBy: null }),
      await decided({ network: "base", pays: false, settledBy: null }),
      await decided({ pays: false, settledBy: null }, { type: "SEND" }),
    ];
    const found: (string | null | undefined)[] = [];
    for (const txHash of others) found.push((await named(txHash))?.transfer);
    expect(found).toEqual(["tag", null, null, null, null]);
  });

  test("of a transfer that does not pay reveals nothing about its link; a PAID link gets what was paid", async () => {
    const beside = await decided({ pays: false, settledBy: null });
    expect(await named(beside)).toEqual({ transfer: "amount", history: "amount", link: null });
    const other = await seedLink(lab.sql, lab.merchant);
    await lab.sql`update payment_links set status = 'PAID', paid_at = now(), paid_units = null where id = ${other}`;
    await named(await decided({ link: other, settledBy: null, units: 7n }));
    const rows = await lab.sql<{ id: string; paidUnits: bigint | null }[]>`
      select id, paid_units::bigint as paid_units from payment_links where id in (${link}, ${other})`;
    const unitsOf = (id: string) => rows.find((row) => row.id === id)?.paidUnits;
    expect([unitsOf(other), unitsOf(link)]).toEqual([7n, null]);
  });
});
