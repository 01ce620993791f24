/** A merchant's decisions about transfers that a reorganisation puts elsewhere: each stays with its transfer. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import { saveAssignment } from "../../db/ledger/assignments.ts";
import { moveAssignments } from "../../db/ledger/reorganised-assignments.ts";
import { hasEvidence } from "../../db/ledger/settlement-evidence.ts";
import { lockLinks } from "../../db/links/lock-links.ts";
import { assignTransfers } from "../../db/payments/retroactive-attribution.ts";
import type { SeenTransfer } from "../../indexer/source/decode-logs.ts";
import { bookTransfer } from "../support/book-transfer.ts";
import {
  type BooksLab,
  claim,
  makeBlock,
  makeTransfer,
  NETWORK,
  openBooks,
  paidBy,
  randomHash,
  read,
  UNITS,
  undoAbove,
} from "../support/ledger-lab.ts";
import { randomAddress, seedLink, seedLinks, seedMerchant } from "../support/seed.ts";

let lab: BooksLab;

beforeAll(async () => {
  lab = await openBooks();
});
afterAll(() => lab?.stop());
beforeEach(async () => {
  lab.merchant = await seedMerchant(lab.sql);
});

/** As the merchant does it; without a link it is unassigned. */
async function assign({ txHash, logIndex }: SeenTransfer, linkId?: string): Promise<void> {
  const { userId } = lab.merchant;
  await saveAssignment(lab.sql, { network: NETWORK, txHash, logIndex, userId, linkId, accept: true });
  const [row] = await lab.sql<{ id: bigint }[]>`
    select id from transfers where tx_hash = ${txHash} and log_index = ${logIndex} and status <> 'ORPHANED'`;
  await assignTransfers(lab.sql, [
    {
      ...{ transferId: row?.id ?? 0n, linkId, pays: linkId !== undefined, paymentId: undefined },
      ...{ claimId: undefined, settledBy: linkId === undefined ? undefined : ("merchant" as const) },
    },
  ]);
}

test("three payments of one sender in one transaction stay assigned to their links, wherever their logs are", async () => {
  const [one = "", two = "", three = ""] = await seedLinks(lab.sql, lab.merchant, { count: 3 });
  const first = makeTransfer(lab, 101, { logIndex: 3 });
  const payments = [first, { ...first, logIndex: 4 }, { ...first, logIndex: 5 }];
  await read(lab, payments);
  expect(await paidBy(lab)).toEqual({});
  for (const [index, linkId] of [two, three, one].entries()) await assign(payments[index] ?? first, linkId);
  for (const start of [4, 2, 3, 9]) {
    await undoAbove(lab, 100);
    expect(await paidBy(lab)).toEqual({});
    const block = makeBlock(101);
    await read(
      lab,
      payments.map((payment, index) => ({ ...payment, block, logIndex: start + index })),
    );
    expect(await paidBy(lab)).toEqual({ [two]: start, [three]: start + 1, [one]: start + 2 });
  }
  expect(await lab.sql`select from assignments where tx_hash = ${first.txHash}`).toHaveLength(3);
});

test("a transfer detached from a link does not pay it at another position", async () => {
  const link = await seedLink(lab.sql, lab.merchant);
  const transfer = makeTransfer(lab, 101, { logIndex: 3 });
  await read(lab, [transfer]);
  expect(await paidBy(lab)).toEqual({ [link]: 3 });
  await assign(transfer);
  await undoAbove(lab, 100);
  await read(lab, [{ ...transfer, block: makeBlock(102), logIndex: 8 }]);
  expect(await paidBy(lab)).toEqual({});
});

test("a decision does not apply to a transfer of another amount in the same transaction", async () => {
  const [chosen = ""] = await seedLinks(lab.sql, lab.merchant, { count: 2 });
  const transfer = makeTransfer(lab, 101, { logIndex: 3 });
  await read(lab, [transfer]);
  await assign(transfer, chosen);
  await undoAbove(lab, 100);
  await read(lab, [{ ...transfer, block: makeBlock(101), logIndex: 4, amountUnits: 1n }]);
  expect(await paidBy(lab)).toEqual({});
});

for (const [other, given] of [
  ["another amount", { amountUnits: 1n }],
  ["another sender", { amountUnits: 1n, from: randomAddress() }],
] as const)
  test(`a decision does not apply to a transfer of ${other} at its position`, async () => {
    const [chosen = ""] = await seedLinks(lab.sql, lab.merchant, { count: 2 });
    const transfer = makeTransfer(lab, 101, { logIndex: 3 });
    await read(lab, [transfer]);
    await assign(transfer, chosen);
    await undoAbove(lab, 100);
    await read(lab, [{ ...transfer, ...given, block: makeBlock(101) }]);
    expect(await paidBy(lab)).toEqual({});
    // the decided transfer is back
    await undoAbove(lab, 100);
    await read(lab, [{ ...transfer, block: makeBlock(101) }]);
    expect(await paidBy(lab)).toEqual({ [chosen]: 3 });
  });

test("decisions about transfers that took turns at one position all wait for theirs", async () => {
  const links = await seedLinks(lab.sql, lab.merchant, { count: 3 });
  const first = makeTransfer(lab, 101, { logIndex: 3 });
  const turns = links.map((linkId, index) => ({
    linkId,
    transfer: index === 0 ? first : { ...first, from: randomAddress() },
  }));
  for (const { linkId, transfer } of turns) {
    await read(lab, [{ ...transfer, block: makeBlock(101) }]);
    expect(await paidBy(lab)).toEqual({});
    await assign(transfer, linkId);
    await undoAbove(lab, 100);
  }
  for (const { linkId, transfer } of [...turns, ...turns.toReversed()]) {
    await read(lab, [{ ...transfer, block: makeBlock(101) }]);
    expect(await paidBy(lab)).toEqual({ [linkId]: 3 });
    await undoAbove(lab, 100);
  }
  await read(
    lab,
    turns.map(({ transfer }, index) => ({ ...transfer, block: makeBlock(101), logIndex: 2 + index })),
  );
  expect(await paidBy(lab)).toEqual(Object.fromEntries(links.map((linkId, index) => [linkId, 2 + index])));
});

test("decisions on another network about a transaction of the same hash are left alone", async () => {
  const [one = "", two = ""] = await seedLinks(lab.sql, lab.merchant, { count: 2 });
  const transfer = makeTransfer(lab, 101, { logIndex: 3 });
  await read(lab, [transfer]);
  await assign(transfer, one);
  const { txHash } = transfer;
  const elsewhere = { network: "base", txHash, logIndex: 3, userId: lab.merchant.userId } as const;
  await saveAssignment(lab.sql, { ...elsewhere, linkId: two, accept: true });
  const listElsewhere = async () => [
    ...(await lab.sql`
      select log_index, link_id, orphaned_transfer_id is null as is_settled
      from assignments
      where network = 'base' and tx_hash = ${txHash}`),
  ];
  const settled = { logIndex: 3, linkId: two, isSettled: true };
  await undoAbove(lab, 100);
  expect(await listElsewhere()).toEqual([settled]);
  const other = { ...transfer, from: randomAddress(), block: makeBlock(101) };
  await read(lab, [other]);
  await assign(other, two);
  expect(await listElsewhere()).toEqual([settled]);
  await undoAbove(lab, 100);
  // there it waits for a transfer of its own
  await lab.sql`
    update assignments
    set orphaned_transfer_id = (select max(id) from transfers where tx_hash = ${txHash})
    where network = 'base' and tx_hash = ${txHash}`;
  await read(lab, [{ ...transfer, block: makeBlock(101), logIndex: 4 }]);
  expect(await paidBy(lab)).toEqual({ [one]: 4 });
  await undoAbove(lab, 100);
  await read(lab, [{ ...transfer, block: makeBlock(101) }]);
  expect(await paidBy(lab)).toEqual({ [one]: 3 });
  await assign(transfer);
  expect(await listElsewhere()).toEqual([{ ...settled, isSettled: false }]);
  const own = await lab.sql`select from assignments where network = ${NETWORK} and tx_hash = ${txHash}`;
  // about this transfer, and about the other one
  expect(own).toHaveLength(2);
});

test("a decision that waits for its transfer on another network moves none of the same position here", async () => {
  const [one = "", two = ""] = await seedLinks(lab.sql, lab.merchant, { count: 2 });
  const { userId, address } = lab.merchant;
  const transfer = makeTransfer(lab, 101, { logIndex: 3 });
  const { txHash } = transfer;
  const from = randomAddress();
  await read(lab, [transfer]);
  await assign(transfer, one);
  await bookTransfer(lab, { network: "base", status: "ORPHANED", from, txHash });
  await lab.sql`
    insert into assignments (network, tx_hash, log_index, user_id, link_id, accept, orphaned_transfer_id)
    select network, ${txHash}, 3, ${userId}, ${two}, true, id
    from transfers
    where network = 'base' and from_address = ${from} and to_address = ${address}`;
  await read(lab, [{ ...transfer, from, block: makeBlock(102), logIndex: 7 }]);
  const own = await lab.sql<{ logIndex: number; linkId: string }[]>`
    select log_index, link_id from assignments where network = ${NETWORK} and tx_hash = ${txHash}`;
  expect([...own]).toEqual([{ logIndex: 3, linkId: one }]);
});

test("of two decisions about one transfer, the later counts even while the earlier waits at its position", async () => {
  const [first = "", second = ""] = await seedLinks(lab.sql, lab.merchant, { count: 2 });
  const transfer = makeTransfer(lab, 101, { logIndex: 3 });
  await read(lab, [transfer]);
  await assign(transfer, first);
  await undoAbove(lab, 100);
  // a process of an older version reads it back, and moves nothing
  await lab.sql`update assignments set network = 'base' where tx_hash = ${transfer.txHash}`;
  await read(lab, [{ ...transfer, block: makeBlock(101) }]);
  await lab.sql`update assignments set network = ${NETWORK} where tx_hash = ${transfer.txHash}`;
  await assign(transfer, second);
  for (const logIndex of [3, 8]) {
    await undoAbove(lab, 100);
    await read(lab, [{ ...transfer, block: makeBlock(101), logIndex }]);
    expect(await paidBy(lab)).toEqual({ [second]: logIndex });
  }
  expect(await lab.sql`select from assignments where tx_hash = ${transfer.txHash}`).toHaveLength(1);
});

test("a transfer that a decision may be about is evidence, even when another transaction makes it", async () => {
  const [chosen = ""] = await seedLinks(lab.sql, lab.merchant, { count: 2 });
  // no link asks for as much
  const unlinked = { amountUnits: 77n };
  const transfer = makeTransfer(lab, 101, { ...unlinked, authorizationNonce: randomHash() });
  const plain = makeTransfer(lab, 101, unlinked);
  const isEvident = ({ block, ...one }: SeenTransfer) => {
    const placed = { ...one, blockNumber: block.number, blockTimeMs: block.timeS * 1_000 };
    return hasEvidence(lab.sql, NETWORK, { transfers: [placed], spent: [] });
  };
  await read(lab, [transfer, plain]);
  await assign(transfer, chosen);
  await assign(plain);
  expect(await isEvident({ ...transfer, txHash: randomHash() })).toBe(false);
  expect(await isEvident(transfer)).toBe(true);
  await undoAbove(lab, 100);
  expect(await isEvident({ ...transfer, txHash: randomHash() })).toBe(true);
  expect(await isEvident({ ...plain, logIndex: 9 })).toBe(true);
  expect(await isEvident(makeTransfer(lab, 101, { ...unlinked, authorizationNonce: randomHash() }))).toBe(
    false,
  );
});

test("of two decisions about one transfer, the later is moved", async () => {
  const [first = "", second = ""] = await seedLinks(lab.sql, lab.merchant, { count: 2 });
  const transfer = makeTransfer(lab, 101, { logIndex: 3 });
  await read(lab, [transfer]);
  await assign(transfer, first);
  await undoAbove(lab, 100);
  // a process of an older version reads it back, and moves nothing
  await lab.sql`update assignments set network = 'base' where tx_hash = ${transfer.txHash}`;
  await read(lab, [{ ...transfer, block: makeBlock(101), logIndex: 8 }]);
  await lab.sql`update assignments set network = ${NETWORK} where tx_hash = ${transfer.txHash}`;
  await assign({ ...transfer, logIndex: 8 }, second);
  for (const logIndex of [9, 3, 8]) {
    await undoAbove(lab, 100);
    await read(lab, [{ ...transfer, block: makeBlock(101), logIndex }]);
    expect(await paidBy(lab)).toEqual({ [second]: logIndex });
  }
});

test("an assigned authorization pays its link whichever transaction executes it", async () => {
  const [chosen = ""] = await seedLinks(lab.sql, lab.merchant, { count: 2 });
  const transfer = makeTransfer(lab, 101, { logIndex: 3, authorizationNonce: randomHash() });
  await read(lab, [transfer]);
  await assign(transfer, chosen);
  await undoAbove(lab, 100);
  const other = makeTransfer(lab, 101, { amountUnits: UNITS });
  const again = { ...transfer, block: other.block, txHash: randomHash(), logIndex: 0 };
  await read(lab, [again, other]);
  expect(await paidBy(lab)).toMatchObject({ [chosen]: 0 });
});

test("a decision is moved while another transaction holds its link, and waits for it only once all links are locked", async () => {
  const [chosen = ""] = await seedLinks(lab.sql, lab.merchant, { count: 2 });
  const transfer = makeTransfer(lab, 101, { logIndex: 3 });
  await read(lab, [transfer]);
  await assign(transfer, chosen);
  await undoAbove(lab, 100);
  const held = Promise.withResolvers<void>();
  const locked = Promise.withResolvers<void>();
  const holder = lab.sql.begin(async (tx) => {
    await lockLinks(tx, [chosen]);
    locked.resolve();
    await held.promise;
  });
  await locked.promise;
  const moved = lab.sql.begin(async (tx) => {
    await tx`set local lock_timeout = 500`;
    await moveAssignments(tx, NETWORK, [{ ...transfer, logIndex: 7 }]);
    held.resolve();
    await tx`set local lock_timeout = 30000`;
  });
  await Promise.all([moved.finally(held.resolve), holder]);
  const rows = await lab.sql<{ logIndex: number; linkId: string }[]>`
    select log_index, link_id from assignments where tx_hash = ${transfer.txHash}`;
  expect([...rows]).toEqual([{ logIndex: 7, linkId: chosen }]);
});

test("a decision about a transfer at the position of another's belongs to the merchant who makes it", async () => {
  const transfer = makeTransfer(lab, 101);
  await assign(transfer, await seedLink(lab.sql, lab.merchant));
  lab.merchant = await seedMerchant(lab.sql);
  await assign(transfer, await seedLink(lab.sql, lab.merchant));
  const rows = await lab.sql<{ userId: string }[]>`
    select user_id from assignments where tx_hash = ${transfer.txHash}`;
  expect(rows.map(({ userId }) => userId)).toEqual([lab.merchant.userId]);
});

test("a claimed transfer detached from its link leaves no pending row after a reorganisation, and returns once", async () => {
  const link = await seedLink(lab.sql, lab.merchant);
  const transfer = makeTransfer(lab, 101);
  await claim(lab, link, transfer);
  await read(lab, [transfer]);
  expect(await paidBy(lab)).toEqual({ [link]: transfer.logIndex });
  await assign(transfer);
  await undoAbove(lab, 100);
  const { userId } = lab.merchant;
  const statuses = async () => {
    const rows = await lab.sql<{ status: string }[]>`
      select status from transactions where owner = owner_key(${userId}) order by status`;
    return rows.map(({ status }) => status);
  };
  expect(await statuses()).toEqual(["ORPHANED"]);
  await read(lab, [{ ...transfer, block: makeBlock(102) }]);
  expect(await statuses()).toEqual(["CONFIRMED", "ORPHANED"]);
});

test("a decision about another transaction keeps its position when one with the same log index moves", async () => {
  const [one = "", two = ""] = await seedLinks(lab.sql, lab.merchant, { count: 2 });
  const [moving, staying] = [
    makeTransfer(lab, 102, { logIndex: 3 }),
    makeTransfer(lab, 101, { logIndex: 3 }),
  ];
  await read(lab, [moving, staying]);
  await assign(moving, one);
  await assign(staying, two);
  await undoAbove(lab, 101);
  await read(lab, [{ ...moving, block: makeBlock(102), logIndex: 7 }]);
  expect(await paidBy(lab)).toEqual({ [one]: 7, [two]: 3 });
  const places = await lab.sql<{ linkId: string; logIndex: number }[]>`
    select link_id, log_index from assignments where link_id in (${one}, ${two})`;
  expect(Object.fromEntries(places.map(({ linkId, logIndex }) => [linkId, logIndex]))).toEqual({
    [one]: 7,
    [two]: 3,
  });
});

for (const seenFirst of [[3], [4], [5], [3, 5], [4, 5]])
  for (const assigned of [[3, 4, 5], [4, 5], [5]])
    test(`equal payments of one transaction, of which ${assigned} are assigned, all pay their links if a node first shows only ${seenFirst}`, async () => {
      await seedLinks(lab.sql, lab.merchant, { count: 2 });
      const first = makeTransfer(lab, 101, { logIndex: 3 });
      await read(
        lab,
        [3, 4, 5].map((logIndex) => ({ ...first, logIndex })),
      );
      const links: string[] = [];
      for (const logIndex of assigned) {
        const linkId = await seedLink(lab.sql, lab.merchant);
        links.push(linkId);
        await assign({ ...first, logIndex }, linkId);
      }
      await undoAbove(lab, 100);
      const block = makeBlock(101);
      const again = [3, 4, 5].map((logIndex) => ({ ...first, block, logIndex }));
      const booked = again.filter(({ logIndex }) => seenFirst.includes(logIndex));
      await read(lab, booked);
      const missed = again.filter(({ logIndex }) => !seenFirst.includes(logIndex));
      await read(lab, missed, [], { booked });
      const paid = await paidBy(lab);
      expect(Object.keys(paid).toSorted()).toEqual(links.toSorted());
      expect(new Set(Object.values(paid)).size).toBe(links.length);
      const decided = await lab.sql<{ linkId: string; logIndex: number }[]>`
        select link_id, log_index from assignments where tx_hash = ${first.txHash}`;
      expect(Object.fromEntries(decided.map(({ linkId, logIndex }) => [linkId, logIndex]))).toEqual(paid);
    });

for (const seenFirst of [3, 4, 5])
  test(`payments of three amounts in one transaction all pay their links again if a node first shows only log ${seenFirst}`, async () => {
    await seedLinks(lab.sql, lab.merchant, { count: 2 });
    const block = makeBlock(101);
    const first = makeTransfer(lab, 101, { block, logIndex: 3 });
    const payments = [
      first,
      { ...first, logIndex: 4, amountUnits: 2n * UNITS },
      { ...first, logIndex: 5, amountUnits: 3n * UNITS },
    ];
    await read(lab, payments);
    const expected: Record<string, number> = {};
    for (const payment of payments) {
      const linkId = await seedLink(lab.sql, lab.merchant);
      await assign(payment, linkId);
      expected[linkId] = payment.logIndex;
    }
    await undoAbove(lab, 100);
    const again = payments.map((payment) => ({ ...payment, block: makeBlock(101) }));
    const booked = again.filter(({ logIndex }) => logIndex === seenFirst);
    await read(lab, booked);
    const missed = again.filter(({ logIndex }) => logIndex !== seenFirst);
    await read(lab, missed, [], { booked });
    expect(await paidBy(lab)).toEqual(expected);
    const pending = await lab.sql`
      select from assignments where tx_hash = ${first.txHash} and orphaned_transfer_id is not null`;
    expect(pending).toHaveLength(0);
  });
