/** A proven claim names a transaction with payments of two amounts, and a node shows the other one first. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import { newRefundId } from "../../core/domain/ids.ts";
import type { SeenTransfer } from "../../indexer/source/decode-logs.ts";
import {
  type BooksLab,
  claim,
  historyOf,
  linkOf,
  makeBlock,
  makeTransfer,
  NETWORK,
  openBooks,
  paidBy,
  read,
  UNITS,
  undoAbove,
} from "../support/ledger-lab.ts";
import { seedLinks, seedMerchant } from "../support/seed.ts";

let lab: BooksLab;
let proven: string;
let other: string;

beforeAll(async () => {
  lab = await openBooks();
});
afterAll(() => lab?.stop());
beforeEach(async () => {
  lab.merchant = await seedMerchant(lab.sql);
  [proven = ""] = await seedLinks(lab.sql, lab.merchant, {});
  [other = ""] = await seedLinks(lab.sql, lab.merchant, { amountUnits: 2n * UNITS });
});

async function claimStates(): Promise<string[]> {
  const rows = await lab.sql<{ state: string }[]>`select state from claims where link_id = ${proven}`;
  return rows.map(({ state }) => state);
}

for (const isDeep of [true, false])
  for (const isBack of [false, true])
    test(`each pays its link once both are known: ${isBack ? "after a reorganisation" : "at first"}, ${isDeep ? "deep" : "not deep yet"}`, async () => {
      const first = makeTransfer(lab, 101, { logIndex: 3 });
      const both = [first, { ...first, logIndex: 4, amountUnits: 2n * UNITS }];
      await claim(lab, proven, first, "EOA");
      if (isBack) {
        await read(lab, both, [], { isDeep });
        expect(await paidBy(lab)).toEqual({ [proven]: 3, [other]: 4 });
        await undoAbove(lab, 100);
      }
      const block = makeBlock(101);
      const [fitting, booked] = both.map((transfer) => ({ ...transfer, block }));
      if (!fitting || !booked) throw new Error("two transfers");
      await read(lab, [booked], [], { isDeep });
      expect(await paidBy(lab)).toEqual({});
      expect(await claimStates()).toEqual(["MATCHED"]);
      await read(lab, [fitting], [], { isDeep, booked: [booked] });
      expect(await paidBy(lab)).toEqual({ [proven]: 3, [other]: 4 });
      expect(await claimStates()).toEqual(["MATCHED"]);
      const status = isDeep ? "PAID" : "PENDING";
      for (const link of [proven, other])
        expect(await linkOf(lab, link)).toEqual({ status, exception: "NONE" });
      for (const link of [proven, other]) {
        const rows = (await historyOf(lab, link)).filter((row) => row.status !== "ORPHANED");
        expect(rows).toMatchObject([{ type: "PAYMENT_LINK", txHash: first.txHash }]);
      }
    });

test("the transfer that fits is the duplicate of a link that another one pays, and the other pays its own", async () => {
  const first = makeTransfer(lab, 101, { logIndex: 3 });
  await claim(lab, proven, first, "EOA");
  const booked = { ...first, logIndex: 4, amountUnits: 2n * UNITS };
  await read(lab, [booked]);
  const paying = makeTransfer(lab, 102, { logIndex: 9 });
  await read(lab, [paying]);
  expect(await paidBy(lab)).toEqual({ [proven]: 9 });
  await read(lab, [first], [], { booked: [booked] });
  expect(await paidBy(lab)).toEqual({ [proven]: 9, [other]: 4 });
  expect(await linkOf(lab, proven)).toEqual({ status: "PAID", exception: "DUPLICATE" });
});

/** Of a log of its transaction; the refund's operation is not looked at. */
async function refund({ txHash, from }: SeenTransfer, logIndex: number): Promise<void> {
  await lab.sql.begin(async (tx) => {
    await tx`set local session_replication_role = replica`;
    await tx`
      insert into refunds (
        id, user_id, link_id, network, paid_tx_hash, paid_log_index, to_address, to_source, amount_units
      )
      values (
        ${newRefundId(new Date())}, ${lab.merchant.userId}, ${proven}, ${NETWORK}, ${txHash}, ${logIndex}, ${from},
        'transfer_sender', 1
      )`;
  });
}

test("a transfer that was refunded stays with the link that its proof names", async () => {
  const first = makeTransfer(lab, 101, { logIndex: 3 });
  await claim(lab, proven, first, "EOA");
  const booked = { ...first, logIndex: 4, amountUnits: 3n * UNITS };
  await read(lab, [booked]);
  await refund(first, 4);
  await read(lab, [first], [], { booked: [booked] });
  const [row] = await lab.sql<{ linkId: string }[]>`
    select link_id from transfers where tx_hash = ${first.txHash} and log_index = 4`;
  expect(row?.linkId).toBe(proven);
});

test("a refund that waits for its own transfer does not keep the one that has its former place", async () => {
  const first = makeTransfer(lab, 101, { logIndex: 3 });
  await claim(lab, proven, first, "EOA");
  await read(lab, [first, { ...first, logIndex: 4, amountUnits: 2n * UNITS }]);
  await refund(first, 3);
  await undoAbove(lab, 100);
  const fitting = { ...first, block: makeBlock(101), logIndex: 2 };
  const booked = { ...fitting, logIndex: 3, amountUnits: 2n * UNITS };
  await read(lab, [booked]);
  await read(lab, [fitting], [], { booked: [booked] });
  expect(await paidBy(lab)).toEqual({ [proven]: 2, [other]: 3 });
  const [moved] = await lab.sql<{ paidLogIndex: number }[]>`
    select paid_log_index from refunds where link_id = ${proven}`;
  expect(moved?.paidLogIndex).toBe(2);
});

test("a transfer stays with its proof when none that is read later fits better", async () => {
  const first = makeTransfer(lab, 101, { logIndex: 3, amountUnits: 3n * UNITS });
  await claim(lab, proven, first, "EOA");
  const booked = { ...first, logIndex: 4, amountUnits: 5n * UNITS };
  await read(lab, [booked]);
  await read(lab, [first], [], { booked: [booked] });
  expect(await linkOf(lab, proven)).toEqual({ status: "ACTIVE", exception: "OVERPAID" });
  const rows = await lab.sql<{ logIndex: number; linkId: string | null }[]>`
    select log_index, link_id from transfers where tx_hash = ${first.txHash} order by log_index`;
  expect([...rows]).toEqual([
    { logIndex: 3, linkId: null },
    { logIndex: 4, linkId: proven },
  ]);
});

test("the transfer that a proof gives up names the links that fit it when there are several", async () => {
  const [second = ""] = await seedLinks(lab.sql, lab.merchant, { amountUnits: 2n * UNITS });
  const first = makeTransfer(lab, 101, { logIndex: 3 });
  await claim(lab, proven, first, "EOA");
  const booked = { ...first, logIndex: 4, amountUnits: 2n * UNITS };
  await read(lab, [booked]);
  await read(lab, [first], [], { booked: [booked] });
  expect(await paidBy(lab)).toEqual({ [proven]: 3 });
  for (const table of ["transfers", "transactions"]) {
    const [row] = await lab.sql<{ linkId: string | null; candidates: string[] | null }[]>`
      select link_id, candidates from ${lab.sql(table)} where tx_hash = ${first.txHash} and log_index = 4`;
    expect(row?.linkId).toBeNull();
    expect(row?.candidates?.toSorted()).toEqual([other, second].toSorted());
  }
});

test("a transfer pays the proven link that asks for its amount, although an older proof names the transaction too", async () => {
  const first = makeTransfer(lab, 101, { logIndex: 3 });
  await claim(lab, proven, first, "EOA");
  await claim(lab, other, first, "EOA");
  const booked = { ...first, logIndex: 4, amountUnits: 2n * UNITS };
  await read(lab, [booked]);
  expect(await paidBy(lab)).toEqual({ [other]: 4 });
  expect(await claimStates()).toEqual(["OPEN"]);
  await read(lab, [first], [], { booked: [booked] });
  expect(await paidBy(lab)).toEqual({ [proven]: 3, [other]: 4 });
});
