/** A refunded transfer that a reorganisation removed comes back, alone or behind others that fill its block: the refund moves to its place. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { newLinkId, newRefundId } from "../../core/domain/ids.ts";
import { saveAssignment } from "../../db/ledger/assignments.ts";
import type { SeenTransfer } from "../../indexer/source/decode-logs.ts";
import {
  type BooksLab,
  makeBlock,
  makeTransfer,
  NETWORK,
  openBooks,
  randomHash,
  read,
  UNITS,
  undoAbove,
} from "../support/ledger-lab.ts";
import { randomAddress, seedLinks } from "../support/seed.ts";

setDefaultTimeout(120_000);
let lab: BooksLab;
beforeAll(async () => {
  lab = await openBooks();
});
afterAll(() => lab?.stop());

/** Of its log 3, or another one. */
async function refundOf(
  { txHash, from }: SeenTransfer,
  { logIndex = 3, linkId = newLinkId() } = {},
): Promise<string> {
  const id = newRefundId(new Date());
  await lab.sql.begin(async (tx) => {
    // the refund's operation and link are not looked at
    await tx`set local session_replication_role = replica`;
    await tx`
      insert into refunds (
        id, user_id, link_id, network, paid_tx_hash, paid_log_index, to_address, to_source, amount_units
      )
      values (
        ${id}, ${lab.merchant.userId}, ${linkId}, ${NETWORK}, ${txHash}, ${logIndex}, ${from}, 'transfer_sender', ${UNITS}
      )`;
  });
  return id;
}

async function placeOf(id: string) {
  const [row] = await lab.sql<{ at: number; waits: boolean }[]>`
    select paid_log_index as at, orphaned_transfer_id is not null as waits from refunds where id = ${id}`;
  return row;
}

test.each([
  ["alone", 0],
  ["behind more transfers than one statement stores", 2_000],
])("%s", async (_where, others) => {
  const transfer = makeTransfer(lab, 101, { logIndex: 3 });
  await read(lab, [transfer]);
  const id = await refundOf(transfer);
  await undoAbove(lab, 100);
  const block = makeBlock(101);
  const dust = Array.from({ length: others }, (_, logIndex) => ({
    ...makeTransfer(lab, 101, { logIndex, amountUnits: 1n }),
    block,
  }));
  await read(lab, [...dust, { ...transfer, block, logIndex: others }]);
  expect(await placeOf(id)).toEqual({ at: others, waits: false });
  await undoAbove(lab, 100);
});

test("behind others of its transaction: of another sender, to another recipient, by an authorization", async () => {
  const transfer = makeTransfer(lab, 101, { logIndex: 3 });
  await read(lab, [transfer]);
  const id = await refundOf(transfer);
  await undoAbove(lab, 100);
  const block = makeBlock(101);
  const others = [{ from: randomAddress() }, { to: randomAddress() }, { authorizationNonce: randomHash() }];
  const unlike = others.map((other, logIndex) => ({ ...transfer, block, logIndex, ...other }));
  await read(lab, [...unlike, { ...transfer, block, logIndex: 5 }]);
  expect(await placeOf(id)).toEqual({ at: 5, waits: false });
  await undoAbove(lab, 100);
});

test("after another transfer of its transaction has had its place and was removed as well", async () => {
  const transfer = makeTransfer(lab, 101, { logIndex: 3 });
  await read(lab, [transfer]);
  const id = await refundOf(transfer);
  await undoAbove(lab, 100);
  const other = { ...transfer, to: randomAddress() };
  await read(lab, [{ ...other, block: makeBlock(101) }]);
  expect(await placeOf(id)).toEqual({ at: 3, waits: true });
  await undoAbove(lab, 100);
  const block = makeBlock(101);
  await read(lab, [
    { ...other, block },
    { ...transfer, block, logIndex: 4 },
  ]);
  expect(await placeOf(id)).toEqual({ at: 4, waits: false });
});

for (const seenFirst of [3, 4])
  test(`refunds of equal payments of one transaction stay with their links if a node first shows only log ${seenFirst}`, async () => {
    const { userId } = lab.merchant;
    const linkIds = await seedLinks(lab.sql, lab.merchant, { count: 2 });
    const first = makeTransfer(lab, 101, { logIndex: 3 });
    const payments = [first, { ...first, logIndex: 4 }];
    for (const [index, { txHash, logIndex }] of payments.entries())
      await saveAssignment(lab.sql, {
        ...{ network: NETWORK, txHash, logIndex, userId, accept: true },
        linkId: linkIds[index],
      });
    await read(lab, payments);
    const refunds = new Map<string, string>();
    for (const [index, linkId] of linkIds.entries())
      refunds.set(linkId, await refundOf(first, { logIndex: payments[index]?.logIndex, linkId }));
    await undoAbove(lab, 100);
    const block = makeBlock(101);
    const again = payments.map((payment) => ({ ...payment, block }));
    const booked = again.filter(({ logIndex }) => logIndex === seenFirst);
    await read(lab, booked);
    await read(
      lab,
      again.filter((payment) => !booked.includes(payment)),
      [],
      { booked },
    );
    const paid = await lab.sql<{ linkId: string; logIndex: number }[]>`
      select link_id, log_index from transfers where tx_hash = ${first.txHash} and status <> 'ORPHANED' and pays`;
    expect(paid).toHaveLength(2);
    for (const { linkId, logIndex } of paid)
      expect(await placeOf(refunds.get(linkId) ?? "")).toEqual({ at: logIndex, waits: false });
    await undoAbove(lab, 100);
  });

test("a refund does not follow its link to a transfer of another amount", async () => {
  const [linkId = ""] = await seedLinks(lab.sql, lab.merchant, { count: 2 });
  const { userId } = lab.merchant;
  const first = makeTransfer(lab, 101, { logIndex: 3 });
  const { txHash } = first;
  await saveAssignment(lab.sql, { network: NETWORK, txHash, logIndex: 4, userId, linkId, accept: true });
  const payments = [first, { ...first, logIndex: 4, amountUnits: 1n }];
  await read(lab, payments);
  const id = await refundOf(first, { linkId });
  await undoAbove(lab, 100);
  const block = makeBlock(101);
  await read(
    lab,
    payments.map((payment) => ({ ...payment, block })),
  );
  expect(await placeOf(id)).toEqual({ at: 3, waits: false });
});

for (const seenFirst of [3, 4])
  test(`refunds of payments of two amounts in one transaction stay with theirs if a node first shows only log ${seenFirst}`, async () => {
    const first = makeTransfer(lab, 101, { logIndex: 3 });
    const payments = [first, { ...first, logIndex: 4, amountUnits: 2n * UNITS }];
    await read(lab, payments);
    const refunds = [await refundOf(first), await refundOf(first, { logIndex: 4 })];
    await undoAbove(lab, 100);
    const block = makeBlock(101);
    const again = payments.map((payment) => ({ ...payment, block }));
    const booked = again.filter(({ logIndex }) => logIndex === seenFirst);
    await read(lab, booked);
    for (const [index, id] of refunds.entries())
      expect(await placeOf(id)).toEqual({ at: index + 3, waits: index + 3 !== seenFirst });
    await read(
      lab,
      again.filter((payment) => !booked.includes(payment)),
      [],
      { booked },
    );
    for (const [index, id] of refunds.entries())
      expect(await placeOf(id)).toEqual({ at: index + 3, waits: false });
    await undoAbove(lab, 100);
  });

test("a refund moves to the place of its payment that a new branch executes with another amount", async () => {
  const first = makeTransfer(lab, 101, { logIndex: 3 });
  const second = { ...first, logIndex: 4, amountUnits: 2n * UNITS };
  await read(lab, [first, second]);
  const refunds = [await refundOf(first), await refundOf(first, { logIndex: 4 })];
  await undoAbove(lab, 100);
  const block = makeBlock(101);
  await read(lab, [
    { ...first, block, logIndex: 7, amountUnits: UNITS + 5n },
    { ...second, block, logIndex: 8 },
  ]);
  for (const [index, id] of refunds.entries())
    expect(await placeOf(id)).toEqual({ at: index + 7, waits: false });
  await undoAbove(lab, 100);
});

test("a refund does not move to a transfer of another amount that was in one block with its own before the last branch", async () => {
  const first = makeTransfer(lab, 101, { logIndex: 3 });
  const second = { ...first, logIndex: 4, amountUnits: 2n * UNITS };
  await read(lab, [first, second]);
  const id = await refundOf(first, { logIndex: 4 });
  await undoAbove(lab, 100);
  // a node leaves out the first, and then the second
  await read(lab, [{ ...second, block: makeBlock(101), logIndex: 6 }]);
  expect(await placeOf(id)).toEqual({ at: 6, waits: false });
  await undoAbove(lab, 100);
  const block = makeBlock(101);
  const booked = [{ ...first, block, logIndex: 2 }];
  await read(lab, booked);
  expect(await placeOf(id)).toEqual({ at: 6, waits: true });
  await read(lab, [{ ...second, block, logIndex: 3 }], [], { booked });
  expect(await placeOf(id)).toEqual({ at: 3, waits: false });
  await undoAbove(lab, 100);
});
