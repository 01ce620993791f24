/** A transfer is confirmed at the time of the block that makes it deep enough. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { insertBlocks } from "../../db/ledger/blocks.ts";
import { confirmTransfers } from "../../db/ledger/confirm-transfers.ts";
import { STATEMENT_ROWS } from "../../db/ledger/transfers.ts";
import {
  accept,
  type BooksLab,
  makeBlock,
  makeTransfer,
  NETWORK,
  openBooks,
  paymentOf,
  read,
} from "../support/ledger-lab.ts";
import { seedLink } from "../support/seed.ts";

const CONFIRMATIONS = 3;
const FIRST = 101;
let lab: BooksLab;
beforeAll(async () => {
  lab = await openBooks();
});
afterAll(() => lab?.stop());

const timeOf = (blockNumber: number) => new Date((1_700_000_000 + 2 * blockNumber) * 1_000);

function confirmTo(head: number) {
  const given = {
    network: NETWORK,
    depthNumber: head - CONFIRMATIONS + 1,
    confirmations: CONFIRMATIONS,
  } as const;
  return lab.sql.begin((tx) => confirmTransfers(tx, given));
}

test("behavior: with three confirmations, at the time of the second block after its own, in ledger and history", async () => {
  const blocks = Array.from({ length: 5 }, (_, index) => ({
    ...makeBlock(FIRST + index),
    timeS: timeOf(FIRST + index).getTime() / 1_000,
  }));
  await lab.sql.begin((tx) => insertBlocks(tx, NETWORK, blocks));
  const [block] = blocks;
  if (!block) throw new Error("there is no block");
  const { txHash, ...transfer } = makeTransfer(lab, FIRST, { block });
  await read(lab, [{ ...transfer, txHash }], [], { isDeep: false });
  const stateIn = async (table: "transfers" | "transactions") => {
    const [row] = await lab.sql`select status, confirmed_at from ${lab.sql(table)} where tx_hash = ${txHash}`;
    return row;
  };
  await confirmTo(FIRST + 1);
  expect(await stateIn("transfers")).toEqual({ status: "DETECTED", confirmedAt: null });
  await confirmTo(FIRST + 4);
  const confirmed = { status: "CONFIRMED", confirmedAt: timeOf(FIRST + 2) };
  expect(await stateIn("transfers")).toEqual(confirmed);
  expect(await stateIn("transactions")).toEqual(confirmed);
});

test("one recorded while the block that confirms it was skipped is confirmed at the time of the next stored block", async () => {
  const [block, next] = [FIRST + 50, FIRST + 58].map((number) => ({
    ...makeBlock(number),
    timeS: timeOf(number).getTime() / 1_000,
  }));
  if (!block || !next) throw new Error("there is no block");
  await lab.sql.begin((tx) => insertBlocks(tx, NETWORK, [block]));
  // whose time is no time of this network
  await lab.sql.begin((tx) => insertBlocks(tx, "base", [makeBlock(block.number + CONFIRMATIONS - 1)]));
  const transfer = makeTransfer(lab, block.number, { block });
  await read(lab, [transfer], [], { isDeep: false });
  const state = async () => {
    const [row] =
      await lab.sql`select status, confirmed_at from transfers where tx_hash = ${transfer.txHash}`;
    return row;
  };
  await confirmTo(next.number);
  expect(await state()).toEqual({ status: "DETECTED", confirmedAt: null });
  await lab.sql.begin((tx) => insertBlocks(tx, NETWORK, [next]));
  await confirmTo(next.number);
  expect(await state()).toEqual({ status: "CONFIRMED", confirmedAt: timeOf(next.number) });
});

test("what is deep is confirmed with its own history and payment, and nothing of the next block or of what has ended", async () => {
  const number = FIRST + 30;
  const blocks = Array.from({ length: CONFIRMATIONS }, (_, index) => makeBlock(number + index));
  await lab.sql.begin((tx) => insertBlocks(tx, NETWORK, blocks));
  const made = [];
  for (const block of [blocks[0], blocks[0], blocks[1]]) {
    const payment = await accept(lab, await seedLink(lab.sql, lab.merchant));
    if (!payment || !block) throw new Error("the link accepted no payment");
    const transfer = makeTransfer(lab, block.number, { payment, block, logIndex: made.length });
    await read(lab, [transfer], [], { isDeep: false });
    made.push({ payment, transfer });
  }
  const ended = made[1]?.transfer.txHash ?? "";
  await lab.sql`update transactions set status = 'ORPHANED' where tx_hash = ${ended}`;
  await confirmTo(number + CONFIRMATIONS - 1);
  const found = made.map(async ({ payment, transfer: { txHash } }) => {
    const [row] = await lab.sql<{ status: string; history: string }[]>`
      select transfers.status, transactions.status as history
      from transfers
      join transactions on transactions.transfer_id = transfers.id
      where transfers.tx_hash = ${txHash}`;
    return [row?.status, row?.history, (await paymentOf(lab, payment))?.state];
  });
  expect(await Promise.all(found)).toEqual([
    ["CONFIRMED", "CONFIRMED", "CONFIRMED"],
    ["CONFIRMED", "ORPHANED", "CONFIRMED"],
    ["DETECTED", "DETECTED", "MINED"],
  ]);
  await lab.sql`delete from blocks`;
});

test.each([
  ["MINED", "CONFIRMED"],
  ["FAILED", "FAILED"],
  ["CONFIRMED", "CONFIRMED"],
])("a payment that is %s when its transfer becomes deep is %s afterwards", async (state, expected) => {
  const number = FIRST + 10;
  const payment = await accept(lab, await seedLink(lab.sql, lab.merchant));
  if (!payment) throw new Error("the link accepted no payment");
  const blocks = Array.from({ length: CONFIRMATIONS }, (_, index) => makeBlock(number + index));
  await lab.sql.begin((tx) => insertBlocks(tx, NETWORK, blocks));
  await read(lab, [makeTransfer(lab, number, { payment, block: blocks[0] ?? makeBlock(number) })], [], {
    isDeep: false,
  });
  expect(await paymentOf(lab, payment)).toMatchObject({ state: "MINED" });
  await lab.sql`
    update payments
    set state = ${state}, reason = ${state === "FAILED" ? "EXPIRED_TRANSFER" : null}
    where id = ${payment.id}`;
  await confirmTo(number + CONFIRMATIONS - 1);
  expect(await paymentOf(lab, payment)).toMatchObject({ state: expected });
  await lab.sql`delete from blocks`;
});

test("one recorded late is confirmed even behind more confirmed transfers than a statement takes", async () => {
  const block = { ...makeBlock(FIRST + 70), timeS: timeOf(FIRST + 70).getTime() / 1_000 };
  const head = { ...makeBlock(FIRST + 80), timeS: timeOf(FIRST + 80).getTime() / 1_000 };
  await lab.sql.begin((tx) => insertBlocks(tx, NETWORK, [block, head]));
  const transfers = Array.from({ length: STATEMENT_ROWS + 1 }, (_, logIndex) =>
    makeTransfer(lab, block.number, { block, logIndex, amountUnits: 1n }),
  );
  const [late, ...others] = transfers;
  if (!late) throw new Error("there is no transfer");
  await read(lab, others);
  await read(lab, [late], [], { isDeep: false });
  await confirmTo(head.number);
  const [row] = await lab.sql`select status from transfers where tx_hash = ${late.txHash}`;
  expect(row?.status).toBe("CONFIRMED");
});
