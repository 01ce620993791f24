/** What the rows of a link's payment and transfer make of its status. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { recomputeLinkStatus } from "../../db/links/recompute-link-status.ts";
import type { NewPayment } from "../../db/payments/accept-payments.ts";
import { bookTransfer } from "../support/book-transfer.ts";
import {
  accept,
  type BooksLab,
  claim,
  eventsOf,
  linkOf,
  makeTransfer,
  openBooks,
} from "../support/ledger-lab.ts";
import { seedLink } from "../support/seed.ts";

let lab: BooksLab;
let linkId: string;
let payment: NewPayment;

beforeAll(async () => {
  lab = await openBooks({ readTo: 80 });
});
afterAll(() => lab?.stop());
beforeEach(async () => {
  linkId = await seedLink(lab.sql, lab.merchant);
  const taken = await accept(lab, linkId);
  if (!taken) throw new Error("the link accepted no payment");
  payment = taken;
});

describe("a link that no transfer pays", () => {
  test.each([
    ["QUEUED", "PENDING"],
    ["SIGNED", "PENDING"],
    ["BROADCAST", "PENDING"],
    ["MINED", "ACTIVE"],
    ["CONFIRMED", "ACTIVE"],
  ] as const)("with a payment that is %s is %s", async (state, status) => {
    await lab.sql`update payments set state = ${state} where id = ${payment.id}`;
    await lab.sql.begin((tx) => recomputeLinkStatus(tx, { linkIds: [linkId], isReorg: false }));
    expect(await linkOf(lab, linkId)).toMatchObject({ status });
  });
});

test("a link is PAID_LATE by a block after its expiry, but not by one at that time", async () => {
  await bookTransfer(lab, { link: linkId, pays: true });
  const expireBefore = (seconds: number) => lab.sql`
    update payment_links set expires_at = transfers.block_time - make_interval(secs => ${seconds})
    from transfers
    where payment_links.id = ${linkId} and transfers.link_id = ${linkId}`;
  for (const [seconds, exception] of [
    [0, "NONE"],
    [1, "PAID_LATE"],
  ] as const) {
    await expireBefore(seconds);
    await lab.sql.begin((tx) => recomputeLinkStatus(tx, { linkIds: [linkId], isReorg: false }));
    expect(await linkOf(lab, linkId)).toEqual({ status: "PAID", exception });
  }
});

test("a proven claim of an expired link does not make it PENDING, whatever else is booked on it meanwhile", async () => {
  const expired = await seedLink(lab.sql, lab.merchant, { expiresInS: -1 });
  await lab.sql`update payment_links set status = 'EXPIRED' where id = ${expired}`;
  await claim(lab, expired, makeTransfer(lab, 90), "EOA");
  await bookTransfer(lab, { link: expired, units: 2_000_000n });
  await lab.sql.begin((tx) => recomputeLinkStatus(tx, { linkIds: [expired], isReorg: false }));
  expect(await linkOf(lab, expired)).toEqual({ status: "EXPIRED", exception: "OVERPAID" });
  expect(await eventsOf(lab, expired)).toEqual(["exception"]);
  // nor one whose time is over, before the job that expires it has run
  const over = await seedLink(lab.sql, lab.merchant, { expiresInS: -1 });
  await claim(lab, over, makeTransfer(lab, 90), "EOA");
  expect(await linkOf(lab, over)).toMatchObject({ status: "ACTIVE" });
  await bookTransfer(lab, { link: over, units: 2_000_000n });
  await lab.sql.begin((tx) => recomputeLinkStatus(tx, { linkIds: [over], isReorg: false }));
  expect(await linkOf(lab, over)).toEqual({ status: "EXPIRED", exception: "OVERPAID" });
  // one that a claim held before it was over stays PENDING
  const held = await seedLink(lab.sql, lab.merchant);
  await claim(lab, held, makeTransfer(lab, 90), "EOA");
  await lab.sql`update payment_links set expires_at = now() - interval '1 second' where id = ${held}`;
  await lab.sql.begin((tx) => recomputeLinkStatus(tx, { linkIds: [held], isReorg: false }));
  expect(await linkOf(lab, held)).toMatchObject({ status: "PENDING" });
});
