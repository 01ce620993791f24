/** What a rebuild forgets before it reads the chain again: everything a block said, deep enough or not, and nothing else. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { dropChainRows, keepRowIds } from "../../db/ledger/rebuild.ts";
import { bookTransfer } from "../support/book-transfer.ts";
import {
  accept,
  accepted,
  acceptFacilitated,
  type BooksLab,
  claim,
  makeTransfer,
  NETWORK,
  openBooks,
  paymentOf,
  randomHash,
  read,
  signRelay,
} from "../support/ledger-lab.ts";
import { randomAddress, seedLink, seedMerchant } from "../support/seed.ts";
import { insertHistory } from "../transactions/history.ts";

let lab: BooksLab;
beforeAll(async () => {
  lab = await openBooks({ readTo: 80 });
});
afterAll(() => lab?.stop());

const drop = (network: "base" | "base-sepolia" = NETWORK) =>
  lab.sql.begin((tx) => dropChainRows(tx, network));
async function historyOf(linkId: string) {
  return [
    ...(await lab.sql`
      select status, type, transfer_id is null as is_unread, tx_hash, block_number, confirmed_at
      from transactions
      where link_id = ${linkId}`),
  ];
}
const PENDING = {
  status: "PENDING",
  type: "PAYMENT_LINK",
  isUnread: true,
  blockNumber: null,
  confirmedAt: null,
};

describe.each([
  ["CONFIRMED", true],
  ["DETECTED", false],
])("a transfer that is %s", (status, isDeep) => {
  async function settled(sign: boolean) {
    lab.merchant = await seedMerchant(lab.sql);
    const linkId = await seedLink(lab.sql, lab.merchant);
    const payment = await accept(lab, linkId);
    if (!payment) throw new Error("the link accepted no payment");
    if (sign) await signRelay(lab, payment);
    await read(lab, [makeTransfer(lab, 90, { payment })], [], { isDeep });
    expect(await historyOf(linkId)).toMatchObject([{ status, isUnread: false }]);
    return { linkId, payment };
  }

  test("leaves its payment's history row PENDING, and the payment as it was before its block", async () => {
    const [signed, queued] = [await settled(true), await settled(false)];
    await drop();
    for (const { linkId } of [signed, queued])
      expect(await historyOf(linkId)).toEqual([{ ...PENDING, txHash: null }]);
    expect(await paymentOf(lab, signed.payment)).toEqual({ state: "SIGNED", reason: null, txHash: null });
    expect(await paymentOf(lab, queued.payment)).toEqual({ state: "QUEUED", reason: null, txHash: null });
    expect(await lab.sql`select 1 from transfers where status <> 'ORPHANED'`).toHaveLength(0);
  });

  test("leaves its claim's history row PENDING with the claimed transaction", async () => {
    lab.merchant = await seedMerchant(lab.sql);
    const linkId = await seedLink(lab.sql, lab.merchant);
    const transfer = makeTransfer(lab, 90);
    await claim(lab, linkId, transfer, "EOA");
    await read(lab, [transfer], [], { isDeep });
    expect(await historyOf(linkId)).toMatchObject([{ status, isUnread: false }]);
    await drop();
    expect(await historyOf(linkId)).toEqual([{ ...PENDING, txHash: transfer.txHash }]);
  });

  test("is forgotten with its history row when no payment and no claim named it", async () => {
    lab.merchant = await seedMerchant(lab.sql);
    await read(lab, [makeTransfer(lab, 90, { amountUnits: 7n })], [], { isDeep });
    const rows = () => lab.sql`select 1 from transactions where owner = owner_key(${lab.merchant.userId})`;
    expect(await rows()).toHaveLength(1);
    await drop();
    expect(await rows()).toHaveLength(0);
  });

  test("is deleted with its history row, whatever its status: nothing refers to a transfer that is gone", async () => {
    lab.merchant = await seedMerchant(lab.sql);
    await read(lab, [makeTransfer(lab, 90, { amountUnits: 7n })], [], { isDeep });
    await lab.sql`update transactions set status = 'FAILED' where owner = owner_key(${lab.merchant.userId})`;
    await drop();
    expect(
      await lab.sql`select 1 from transactions where owner = owner_key(${lab.merchant.userId})`,
    ).toHaveLength(0);
  });

  test("of another network stays", async () => {
    const { linkId, payment } = await settled(true);
    await drop("base");
    expect(await historyOf(linkId)).toMatchObject([{ status, isUnread: false }]);
    expect((await paymentOf(lab, payment))?.state).toBe(isDeep ? "CONFIRMED" : "MINED");
    await drop();
  });
});

test("nothing of another network is forgotten: rows of each kind, claims, sums and links", async () => {
  const { sql } = lab;
  const ELSEWHERE = "base";
  lab.merchant = await seedMerchant(sql, { network: ELSEWHERE });
  const { userId, walletId } = lab.merchant;
  const link = await seedLink(sql, lab.merchant);
  const [byTransfer = ""] = await insertHistory(sql, userId, [{ network: ELSEWHERE }]);
  const from = randomAddress();
  await bookTransfer(lab, { network: ELSEWHERE, from, link, pays: true, settledBy: "amount" });
  const claimId = await claim(lab, link, makeTransfer(lab, 90), "EOA");
  await sql`update claims set network = ${ELSEWHERE}, state = 'MATCHED' where id = ${claimId}`;
  await sql`
    update transactions
    set status = 'DETECTED', transfer_id = (select id from transfers where from_address = ${from})
    where claim_id = ${claimId}`;
  await sql`update payment_links set status = 'PAID', paid_at = now() where id = ${link}`;
  await sql`update wallets set booked_units = 5, booked_number = 90 where id = ${walletId}`;
  const list = async () => {
    const [row] = await sql`
      select
        (select state from claims where id = ${claimId}) as claim,
        (select booked_units from wallets where id = ${walletId}) as sum,
        (select count(*) from transfers where from_address = ${from}) as transfers,
        (select count(*) from transactions where owner = owner_key(${userId}) and status <> 'PENDING') as history`;
    return row;
  };
  await sql.begin(async (tx) => {
    await keepRowIds(tx, NETWORK);
    const [kept] = await tx`select count(*) from past_ids where id = ${byTransfer}`;
    expect(kept).toEqual({ count: 0n });
  });
  expect(await drop()).not.toContain(link);
  expect(await list()).toEqual({ claim: "MATCHED", sum: 5n, transfers: 1n, history: 2n });
  expect(await drop(ELSEWHERE)).toEqual([link]);
  expect(await list()).toEqual({ claim: "OPEN", sum: 0n, transfers: 0n, history: 0n });
  await sql`update payment_links set status = 'CANCELLED', paid_at = null where id = ${link}`;
});

test("what no block of the chain decided stays: payments that failed, facilitated ones, ended claims, orphaned transfers", async () => {
  const { sql } = lab;
  lab.merchant = await seedMerchant(sql);
  const anew = async () => accepted(lab, await seedLink(sql, lab.merchant));
  const [failed, broadcast, facilitated] = [await anew(), await anew(), await acceptFacilitated(lab)];
  await sql`update payments set state = 'FAILED', reason = 'EXPIRED_TRANSFER' where id = ${failed.id}`;
  await signRelay(lab, broadcast);
  await sql`update payments set state = 'BROADCAST' where id = ${broadcast.id}`;
  await sql`update payments set state = 'CONFIRMED', tx_hash = ${randomHash()} where id = ${facilitated.id}`;
  const ended = ["HINT", "EXPIRED", "REJECTED", "DISPUTED"];
  const claims = await Promise.all(
    ended.map(async (state) => {
      const id = await claim(lab, await seedLink(sql, lab.merchant), makeTransfer(lab, 90), "EOA");
      await sql`update claims set state = ${state} where id = ${id}`;
      return id;
    }),
  );
  const from = randomAddress();
  await bookTransfer(lab, { from, status: "ORPHANED" });
  await drop();
  const stateOf = async (id: string) => {
    const [row] = await sql<{ state: string }[]>`
      select state from payments where id = ${id} union all select state from claims where id = ${id}`;
    return row?.state;
  };
  expect(await Promise.all([failed.id, broadcast.id, facilitated.id].map(stateOf))).toEqual([
    "FAILED",
    "BROADCAST",
    "CONFIRMED",
  ]);
  expect(await Promise.all(claims.map(stateOf))).toEqual(ended);
  expect(await sql`select from transfers where from_address = ${from}`).toHaveLength(1);
  await sql`update payment_links set status = 'CANCELLED' where user_id = ${lab.merchant.userId}`;
});

test("the links returned are those that a block changed: PAID, PENDING, or with an exception", async () => {
  lab.merchant = await seedMerchant(lab.sql);
  const linkThatIs = async (status: string, exception: string) => {
    const id = await seedLink(lab.sql, lab.merchant);
    await lab.sql`
      update payment_links
      set
        status = ${status}, exception = ${exception}, paid_at = case when ${status} = 'PAID' then now() end
      where id = ${id}`;
    return id;
  };
  const changed = [
    await linkThatIs("PAID", "NONE"),
    await linkThatIs("PENDING", "NONE"),
    await linkThatIs("ACTIVE", "UNDERPAID"),
    await linkThatIs("CANCELLED", "PAID_LATE"),
  ];
  const others = [await linkThatIs("ACTIVE", "NONE"), await linkThatIs("CANCELLED", "NONE")];
  expect(await drop("base")).toEqual([]);
  const named = await drop();
  expect(named.filter((id) => [...changed, ...others].includes(id)).sort()).toEqual(changed.sort());
});
