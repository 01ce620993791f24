/** A wallet that joins late: the history rows that are added for transfers which the other side's wallet had recorded. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import { addMissingHistory, forgetOpenings } from "../../db/ledger/wallet-backfills.ts";
import { type BookedTransfer, bookTransfer } from "../support/book-transfer.ts";
import { type BooksLab, NETWORK, openBooks } from "../support/ledger-lab.ts";
import { randomAddress, seedMerchant } from "../support/seed.ts";

/** Where `bookTransfer` puts every transfer. */
const BLOCK = 99;
let lab: BooksLab;

beforeAll(async () => {
  lab = await openBooks();
});
afterAll(() => lab?.stop());
beforeEach(async () => {
  lab.merchant = await seedMerchant(lab.sql);
});

const add = ({ from = BLOCK, to = BLOCK, addresses = [lab.merchant.address] } = {}) =>
  lab.sql.begin((tx) => addMissingHistory(tx, NETWORK, { addresses, from, to }));

async function rows() {
  const found = await lab.sql<{ type: string; status: string }[]>`
    select type, status from transactions where owner = owner_key(${lab.merchant.userId}) order by type`;
  return found.map(({ type, status }) => `${type} ${status}`);
}

async function events(): Promise<string[]> {
  const found = await lab.sql<{ type: string }[]>`
    select type from events where user_id = ${lab.merchant.userId} order by type`;
  return found.map(({ type }) => type);
}

const received = (transfer: BookedTransfer) => bookTransfer(lab, transfer);
const sent = (transfer: BookedTransfer) =>
  bookTransfer(lab, { ...transfer, from: lab.merchant.address, to: randomAddress() });

test.each([
  ["received", received, "RECEIVE"],
  ["sent", sent, "SEND"],
])(
  "a transfer that was %s gets its row with the transfer's status and an event, once",
  async (_way, book, type) => {
    await book({ status: "CONFIRMED" });
    await book({ status: "DETECTED" });
    await book({ status: "ORPHANED" });
    await add();
    await add();
    expect(await rows()).toEqual([`${type} CONFIRMED`, `${type} DETECTED`].toSorted());
    expect(await events()).toEqual(["transaction.confirmed", "transaction.detected"]);
  },
);

test.each([
  ["received", received],
  ["sent", sent],
])(
  "a transfer that was %s outside the blocks, on another network or by another wallet gets no row",
  async (_way, book) => {
    await book({});
    await add({ from: BLOCK + 1, to: BLOCK + 1 });
    await add({ from: BLOCK - 1, to: BLOCK - 1 });
    await add({ addresses: [randomAddress()] });
    expect(await rows()).toEqual([]);
    await lab.sql`update transfers set network = 'base'`;
    await add();
    expect(await rows()).toEqual([]);
  },
);

test("a transfer from the wallet to itself has a row for either side", async () => {
  await bookTransfer(lab, { from: lab.merchant.address, to: lab.merchant.address });
  await add();
  expect(await rows()).toEqual(["RECEIVE CONFIRMED", "SEND CONFIRMED"]);
});

test("the opening balance of the given wallets is deleted, on their network", async () => {
  const [mine, other] = [lab.merchant, await seedMerchant(lab.sql)];
  const elsewhere = await seedMerchant(lab.sql, { network: "base", address: mine.address });
  const ids = [mine, other, elsewhere].map(({ walletId }) => walletId);
  await lab.sql`update wallets set opening_units = 5 where id = any(${ids}::text[])`;
  await forgetOpenings(lab.sql, NETWORK, [mine.address]);
  const found = await lab.sql<{ id: string; openingUnits: bigint | null }[]>`
    select id, opening_units from wallets where id = any(${ids}::text[])`;
  const openingOf = new Map(found.map(({ id, openingUnits }) => [id, openingUnits]));
  expect(ids.map((id) => openingOf.get(id) === null)).toEqual([true, false, false]);
});
