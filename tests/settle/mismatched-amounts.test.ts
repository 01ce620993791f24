/** Attributed transfers of a wrong amount set an exception on their link, unless they are dust that anybody could send. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { recomputeLinkStatus } from "../../db/links/recompute-link-status.ts";
import { type BooksLab, linkOf, makeTransfer, openBooks, read } from "../support/ledger-lab.ts";
import { seedLink } from "../support/seed.ts";

const LEAST_UNITS = 1_000n;
const LINK_UNITS = 7_000_000n;
let lab: BooksLab;
let height = 101;

beforeAll(async () => {
  lab = await openBooks();
}, 120_000);
afterAll(() => lab?.stop());

/** A link with one attributed transfer that does not pay it. */
async function linkWith(amountUnits: bigint, linkUnits = LINK_UNITS): Promise<string> {
  const linkId = await seedLink(lab.sql, lab.merchant, { amountUnits: linkUnits });
  const transfer = makeTransfer(lab, height++, { amountUnits });
  await read(lab, [transfer]);
  await lab.sql`
    update transfers
    set link_id = ${linkId}, pays = false
    where tx_hash = ${transfer.txHash}`;
  await lab.sql.begin((tx) =>
    recomputeLinkStatus(tx, { linkIds: [linkId], isReorg: false, mismatchMinUnits: LEAST_UNITS }),
  );
  return linkId;
}

test("a wrong amount sets an exception from RELAY_MIN_AMOUNT on, one unit less does not", async () => {
  expect(await linkOf(lab, await linkWith(LEAST_UNITS - 1n))).toMatchObject({ exception: "NONE" });
  expect(await linkOf(lab, await linkWith(LEAST_UNITS))).toMatchObject({ exception: "UNDERPAID" });
  expect(await linkOf(lab, await linkWith(LINK_UNITS + 1n))).toMatchObject({ exception: "OVERPAID" });
});

test("the exact amount of a link below RELAY_MIN_AMOUNT is still a duplicate", async () => {
  const linkId = await linkWith(5n, 5n);
  expect(await linkOf(lab, linkId)).toMatchObject({ status: "PENDING", exception: "DUPLICATE" });
});
