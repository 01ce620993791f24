/** Blocks count as read a second time only when it was these blocks that were. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import { deleteBlocksAbove, insertBlocks } from "../../db/ledger/blocks.ts";
import { moveCursor } from "../../db/ledger/cursors.ts";
import { findRecheckedNumber, noteRechecked } from "../../db/ledger/reconciliation.ts";
import { type BooksLab, makeBlock, NETWORK, openBooks, randomHash } from "../support/ledger-lab.ts";

let lab: BooksLab;
const old = makeBlock(90);
beforeAll(async () => {
  lab = await openBooks();
});
beforeEach(async () => {
  await insertBlocks(lab.sql, NETWORK, [old]);
  await lab.sql`
    update cursors set number = 100, hash = ${lab.term.cursor.hash}, rechecked_number = 80 where network = ${NETWORK}`;
});
afterAll(() => lab.stop());

/** The second reading of 81 to 90 ends, as it was when it began. */
const note = () => noteRechecked(lab.sql, { network: NETWORK, epoch: 0n, from: 81, to: old });
const rechecked = () => findRecheckedNumber(lab.sql, NETWORK);

async function reorganise(ancestor: number): Promise<void> {
  const to = { number: ancestor, hash: randomHash() };
  const from = lab.term.cursor;
  await lab.sql.begin(async (tx) => {
    expect(await moveCursor(tx, { network: NETWORK, epoch: 0n, from, to, head: makeBlock(101) })).toBe(true);
    await deleteBlocksAbove(tx, NETWORK, ancestor);
  });
}

test("progress is recorded when nothing happened meanwhile", async () => {
  await insertBlocks(lab.sql, NETWORK, [makeBlock(91)]);
  await insertBlocks(lab.sql, "base", [makeBlock(90)]);
  await note();
  expect(await rechecked()).toBe(90);
});

test("progress is not recorded when a reorganisation set it back meanwhile", async () => {
  await reorganise(70);
  await note();
  expect(await rechecked()).toBe(70);
});

test("progress is not recorded when a reorganisation replaced some of these blocks, whether read again yet or not", async () => {
  await reorganise(85);
  await note();
  expect(await rechecked()).toBe(80);
  await insertBlocks(lab.sql, NETWORK, [makeBlock(90)]);
  await lab.sql`update cursors set number = 100 where network = ${NETWORK}`;
  await note();
  expect(await rechecked()).toBe(80);
});

test("progress is not recorded by a former leader", async () => {
  await noteRechecked(lab.sql, { network: NETWORK, epoch: 1n, from: 81, to: old });
  expect(await rechecked()).toBe(80);
});

test("progress is not recorded over that of another run", async () => {
  await lab.sql`update cursors set rechecked_number = 95 where network = ${NETWORK}`;
  await note();
  expect(await rechecked()).toBe(95);
});
