/** Transfers of another amount that are booked on a link mark it, unless they are dust that anybody could send. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { refreshLinks } from "../../db/payments/settlement.ts";
import { type BooksLab, linkOf, makeTransfer, openBooks, read } from "../support/ledger-lab.ts";
import { seedLink } from "../support/seed.ts";

const LEAST_UNITS = 1_000n;
const LINK_UNITS = 7_000_000n;
let lab: BooksLab;
let height = 101;

beforeAll(async () => {
  lab = await openBooks();
}, 60_000);
afterAll(() => lab?.stop());

/** A link with one transfer booked on it that does not pay it. */
async function linkWith(amountUnits: bigint, linkUnits = LINK_UNITS): Promise<string> {
  const linkId = await seedLink(lab.sql, lab.merchant, { amountUnits: linkUnits });
  const transfer = makeTransfer(lab, height++, { amountUnits });
  await read(lab, [transfer]);
  await lab.sql`
    update transfers
    set link_id = ${linkId}, pays = false
    where tx_hash = ${transfer.txHash}`;
  await lab.sql.begin((tx) =>
    refreshLinks(tx, { linkIds: [linkId], isReorg: false, misfitMinUnits: LEAST_UNITS }),
  );
  return linkId;
}

test("a wrong amount marks its link from the least relayed amount on, one unit less marks none", async () => {
  expect(await linkOf(lab, await linkWith(LEAST_UNITS - 1n))).toMatchObject({ exception: "NONE" });
  expect(await linkOf(lab, await linkWith(LEAST_UNITS))).toMatchObject({ exception: "UNDERPAID" });
  expect(await linkOf(lab, await linkWith(LINK_UNITS + 1n))).toMatchObject({ exception: "OVERPAID" });
});

test("the exact amount of a link below it is a duplicate all the same", async () => {
  const linkId = await linkWith(5n, 5n);
  expect(await linkOf(lab, linkId)).toMatchObject({ status: "PENDING", exception: "DUPLICATE" });
});
