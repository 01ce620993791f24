/** What a merchant may assign, and to which link: one of their own, and which transfers pay it or still may. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { findAssignableLink, findAssignableTransfer, lockCursor } from "../../db/ledger/assignments.ts";
import { startCursor } from "../../db/ledger/cursors.ts";
import { bookTransfer } from "../support/book-transfer.ts";
import {
  accept,
  accepted,
  acceptFacilitated,
  type BooksLab,
  makeTransfer,
  openBooks,
  randomHash,
  read,
  UNITS,
} from "../support/ledger-lab.ts";
import { randomAddress, seedLink, seedLinks, seedMerchant } from "../support/seed.ts";

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

  test.each([
    ["is a link's", { facilitator_user_id: null, facilitator_key_id: null }],
    ["ended without it", { state: "FAILED", reason: "EXPIRED_TRANSFER" }],
    ["awaits it", { state: "QUEUED" }],
    ["is another payer's", { payer: randomAddress() }],
    ["has another nonce", { nonce: randomHash() }],
    ["is of another token", { token: randomAddress() }],
    ["is on another network", { network: "base" }],
  ])("of a payment that %s did not pay for another resource", async (_, given) => {
    const facilitated = await acceptFacilitated(lab);
    const { transfer } = await readAs(lab.merchant, { payment: { ...facilitated, linkId: "" } });
    const isOfLink = "facilitator_user_id" in given;
    const owner = isOfLink ? { link_id: linkId } : {};
    await lab.sql`update payments set ${lab.sql({ ...owner, ...given })} where id = ${facilitated.id}`;
    const [row] = await lab.sql<{ id: string }[]>`
      select id from transactions where tx_hash = ${transfer.txHash}`;
    const asked = { transactionId: row?.id ?? "", userId: lab.merchant.userId };
    expect(await findAssignableTransfer(lab.sql, asked)).toMatchObject({ isFacilitated: false });
  });
});

test("an id that names none of the merchant's rows finds nothing, whatever of theirs is open", async () => {
  await accepted(lab, linkId);
  const asked = { transactionId: "txn_none", userId: lab.merchant.userId };
  expect(await findAssignableTransfer(lab.sql, asked)).toBeUndefined();
});

test("an assignment waits for its own network's indexer, and for no other", async () => {
  await startCursor(lab.sql, "base", { number: 1, hash: randomHash() });
  await lab.sql.begin(async (held) => {
    await lockCursor(held, "base");
    const lock = (network: "base" | "base-sepolia") =>
      lab.sql.begin(async (tx) => {
        await tx`set local lock_timeout = 300`;
        await lockCursor(tx, network);
      });
    await lock("base-sepolia");
    await expect(lock("base")).rejects.toThrow("lock timeout");
  });
});
