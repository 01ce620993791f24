/** Transfers that a reorganisation takes away and brings back: their amount decides once, when they are first seen. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import { findFirstVerdicts } from "../../db/ledger/reincluded-transfers.ts";
import type { SeenTransfer } from "../../indexer/source/decode-logs.ts";
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

const seedTwin = () => seedLink(lab.sql, lab.merchant);

/** A block of the new branch holds them, each one log later than before. */
async function bringBack(transfers: readonly SeenTransfer[], height: number): Promise<void> {
  const block = makeBlock(height);
  await read(
    lab,
    transfers.map((transfer) => ({ ...transfer, block, logIndex: transfer.logIndex + 1 })),
  );
}

test("a transfer pays its link again although a link of its amount was created since, each time it comes back", async () => {
  const link = await seedTwin();
  const transfer = makeTransfer(lab, 101);
  await read(lab, [transfer]);
  await undoAbove(lab, 100);
  await seedTwin();
  for (const height of [101, 103, 102]) {
    await bringBack([transfer], height);
    expect(await paidBy(lab)).toEqual({ [link]: 2 });
    await undoAbove(lab, 100);
  }
});

test("a transfer does not pay a link that was created after it was first seen", async () => {
  const transfer = makeTransfer(lab, 101);
  await read(lab, [transfer]);
  await undoAbove(lab, 100);
  const link = await seedTwin();
  await bringBack([transfer], 102);
  expect(await paidBy(lab)).toEqual({});
  // another one of the same amount does
  await read(lab, [makeTransfer(lab, 103, { logIndex: 9 })]);
  expect(await paidBy(lab)).toEqual({ [link]: 9 });
});

test("a transfer whose link is meanwhile paid by another one pays no link", async () => {
  const link = await seedTwin();
  const transfer = makeTransfer(lab, 101);
  await read(lab, [transfer]);
  await undoAbove(lab, 100);
  await read(lab, [makeTransfer(lab, 101, { logIndex: 7 })]);
  expect(await paidBy(lab)).toEqual({ [link]: 7 });
  await seedTwin();
  await bringBack([transfer], 102);
  expect(await paidBy(lab)).toEqual({ [link]: 7 });
});

test("an authorization that another transaction executes on the new branch is the same transfer", async () => {
  const link = await seedTwin();
  const transfer = makeTransfer(lab, 101, { authorizationNonce: randomHash() });
  await read(lab, [transfer]);
  await undoAbove(lab, 100);
  await seedTwin();
  await bringBack([{ ...transfer, txHash: randomHash() }], 101);
  expect(await paidBy(lab)).toEqual({ [link]: 2 });
});

test("equal transfers in one transaction are recognised by their order", async () => {
  const first = makeTransfer(lab, 101, { logIndex: 3 });
  const link = await seedTwin();
  // pays nothing: the link is paid by the first
  const second = { ...first, logIndex: 5 };
  await read(lab, [first, second]);
  expect(await paidBy(lab)).toEqual({ [link]: 3 });
  await undoAbove(lab, 100);
  await seedTwin();
  await bringBack([first, second], 101);
  expect(await paidBy(lab)).toEqual({ [link]: 4 });
});

test("of two equal transfers, one of them proven to pay its link, the other pays its own again when a node shows it later", async () => {
  const [proven, other] = [await seedTwin(), await seedTwin()];
  const first = makeTransfer(lab, 101, { logIndex: 3 });
  await claim(lab, proven, first, "EOA");
  const both = [first, { ...first, logIndex: 5 }];
  await read(lab, both);
  expect(await paidBy(lab)).toEqual({ [proven]: 3, [other]: 5 });
  for (const seenFirst of [5, 3]) {
    await undoAbove(lab, 100);
    const block = makeBlock(101);
    const again = both.map((transfer) => ({ ...transfer, block }));
    const booked = again.filter(({ logIndex }) => logIndex === seenFirst);
    await read(lab, booked);
    expect(await paidBy(lab)).toEqual({ [proven]: seenFirst });
    await read(
      lab,
      again.filter(({ logIndex }) => logIndex !== seenFirst),
      [],
      { booked },
    );
    expect(await paidBy(lab)).toEqual({ [proven]: seenFirst, [other]: 8 - seenFirst });
  }
});

test("a transfer that a node shows before one of another amount does not pay a link created since", async () => {
  const first = makeTransfer(lab, 101, { logIndex: 3 });
  const second = { ...first, logIndex: 4, amountUnits: 2n * UNITS };
  await read(lab, [first, second]);
  await undoAbove(lab, 100);
  const [later = ""] = await seedLinks(lab.sql, lab.merchant, { amountUnits: 2n * UNITS });
  await bringBack([second], 101);
  expect(await paidBy(lab)).toEqual({});
  // another one of the same amount does
  await read(lab, [makeTransfer(lab, 103, { logIndex: 9, amountUnits: 2n * UNITS })]);
  expect(await paidBy(lab)).toEqual({ [later]: 9 });
});

for (const [what, change] of [
  ["amount", { amountUnits: UNITS + 1n }],
  ["sender", { from: randomAddress() }],
] as const)
  test(`a transfer of another ${what} in the same transaction is judged independently`, async () => {
    const [link = "", larger = ""] = [
      await seedTwin(),
      ...(await seedLinks(lab.sql, lab.merchant, { amountUnits: UNITS + 1n })),
    ];
    const transfer = makeTransfer(lab, 101);
    await read(lab, [transfer]);
    expect(await paidBy(lab)).toEqual({ [link]: 1 });
    await undoAbove(lab, 100);
    await seedTwin();
    await bringBack([{ ...transfer, ...change }], 101);
    expect(await paidBy(lab)).toEqual(what === "amount" ? { [larger]: 2 } : {});
  });

test("thousands of equal transfers in one transaction are recognised within a statement's time", async () => {
  const count = 8_000;
  const gone = makeTransfer(lab, 101);
  await lab.sql`
    insert into transfers (
      network, block_number, block_hash, block_time, tx_hash, log_index, from_address, to_address, amount_units, status
    )
    select
      ${NETWORK}, 101, ${gone.block.hash}, now(), ${gone.txHash}, log_index, ${gone.from}, ${gone.to}, ${UNITS.toString()}::numeric, 'ORPHANED'
    from generate_series(1, ${count}::int) log_index`;
  const back = Array.from({ length: count }, (_, index) => ({
    ...{ ...gone, logIndex: index + 5, blockNumber: 101, blockTimeMs: 0 },
  }));
  const verdicts = await lab.sql.begin(async (tx) => {
    // a third of what a statement may take: it needs 50 ms, and half a minute when each row counts the others
    await tx`set local statement_timeout = '10s'`;
    return findFirstVerdicts(tx, NETWORK, back);
  });
  expect(verdicts.map(({ logIndex }) => logIndex)).toEqual(back.map(({ logIndex }) => logIndex));
});
