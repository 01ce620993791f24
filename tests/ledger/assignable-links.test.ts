/** What a merchant may assign, and to which link: one of their own, and which transfers pay it or still may. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { findAssignableLink, findAssignableTransfer } from "../../db/ledger/assignments.ts";
import { bookTransfer } from "../support/book-transfer.ts";
import {
  accept,
  accepted,
  acceptFacilitated,
  type BooksLab,
  makeTransfer,
  openBooks,
  read,
  UNITS,
} from "../support/ledger-lab.ts";
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

test("only its owner assigns to a link, and a reusable one is refused: its uses accept assignments", async () => {
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

describe("a transfer that executed an authorization", () => {
  /** As its merchant, or another one, asks for its row of the history. */
  async function readAs({ userId }: { userId: string }, payment: Parameters<typeof makeTransfer>[2]) {
    const transfer = makeTransfer(lab, 101, payment);
    await read(lab, [transfer]);
    const [row] = await lab.sql<
      { id: string }[]
    >`select id from transactions where tx_hash = ${transfer.txHash}`;
    const found = await findAssignableTransfer(lab.sql, { transactionId: row?.id ?? "", userId });
    return { transfer, found };
  }

  test("of a facilitated payment paid for another resource", async () => {
    const facilitated = { ...(await acceptFacilitated(lab)), linkId: "" };
    const { transfer, found } = await readAs(lab.merchant, { payment: facilitated });
    expect(found).toMatchObject({ isFacilitated: true, sender: transfer.from, recipient: transfer.to });
  });

  test("of a link's payment, of another amount, did not, and is its merchant's alone", async () => {
    const payment = await accepted(lab, linkId);
    const given = { payment, amountUnits: UNITS + 1n };
    expect((await readAs(lab.merchant, given)).found).toMatchObject({ isFacilitated: false });
    const other = await accepted(lab, await seedLink(lab.sql, lab.merchant));
    expect((await readAs(await seedMerchant(lab.sql), { payment: other })).found).toBeUndefined();
  });
});
