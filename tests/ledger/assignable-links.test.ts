/** What a merchant may assign a transfer to: his own link, with what pays it and what may still. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { findAssignableLink } from "../../db/ledger/assignments.ts";
import { bookTransfer } from "../support/book-transfer.ts";
import { accept, type BooksLab, openBooks } from "../support/ledger-lab.ts";
import { seedLink, seedLinks, seedMerchant } from "../support/seed.ts";

let lab: BooksLab;
let linkId: string;

beforeAll(async () => {
  lab = await openBooks();
});
afterAll(() => lab?.stop());
beforeEach(async () => {
  lab.merchant = await seedMerchant(lab.sql);
  linkId = await seedLink(lab.sql, lab.merchant);
});

const find = (id = linkId, { userId } = lab.merchant) => findAssignableLink(lab.sql, { linkId: id, userId });

test("only its owner assigns to a link, and nobody to a reusable one: its uses take assignments", async () => {
  expect(await find()).toMatchObject({ id: linkId, isTaken: false, hasLivePayment: false });
  expect(await find(linkId, await seedMerchant(lab.sql))).toBeUndefined();
  const [reusable] = await seedLinks(lab.sql, lab.merchant, { isReusable: true });
  expect(await find(reusable)).toBeUndefined();
});

test.each([
  ["QUEUED", true],
  ["SIGNED", true],
  ["BROADCAST", true],
  ["MINED", false],
  ["CONFIRMED", false],
  ["FAILED", false],
])("a payment that is %s may still be executed for its link: %p", async (state, hasLivePayment) => {
  const payment = await accept(lab, linkId);
  await lab.sql`
    update payments
    set state = ${state}, reason = ${state === "FAILED" ? "EXPIRED_TRANSFER" : null}
    where id = ${payment?.id ?? ""}`;
  expect(await find()).toMatchObject({ hasLivePayment });
});

describe("a transfer that is recorded for the link", () => {
  test.each([
    ["DETECTED", true, true],
    ["CONFIRMED", true, true],
    ["ORPHANED", true, false],
    ["CONFIRMED", false, false],
  ] as const)("is %s and pays it (%p): the link is taken: %p", async (status, pays, isTaken) => {
    await bookTransfer(lab, { link: linkId, status, pays });
    expect(await find()).toMatchObject({ isTaken });
  });
});
