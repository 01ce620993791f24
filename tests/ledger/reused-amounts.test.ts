/** Unique amounts are reused: at a busy price many expired, unpaid links had the same one. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { CANDIDATES_MAX } from "../../core/domain/attribute-transfers.ts";
import { type BooksLab, linkOf, makeTransfer, openBooks, read } from "../support/ledger-lab.ts";
import { seedLinks } from "../support/seed.ts";

const PRICE = 5_000_000n;
const UNIQUE = PRICE + 7n;
let lab: BooksLab;

beforeAll(async () => {
  lab = await openBooks();
});
afterAll(() => lab?.stop());

test("a transfer of a unique amount pays the open link that has it, however many expired links had it", async () => {
  const expired = await seedLinks(lab.sql, lab.merchant, { count: CANDIDATES_MAX + 5, amountUnits: PRICE });
  await lab.sql`
    update payment_links
    set
      pay_amount_units = ${UNIQUE}, status = 'EXPIRED', created_at = now() - interval '9 days',
      expires_at = now() - interval '8 days'
    where id = any(${expired})`;
  const [open = ""] = await seedLinks(lab.sql, lab.merchant, { amountUnits: PRICE });
  await lab.sql`update payment_links set pay_amount_units = ${UNIQUE} where id = ${open}`;
  await read(lab, [makeTransfer(lab, 101, { amountUnits: UNIQUE })]);
  expect(await linkOf(lab, open)).toMatchObject({ status: "PAID" });
});
