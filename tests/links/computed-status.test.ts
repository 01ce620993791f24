/** A link's status as it follows from the ledger, and after its payment has failed. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { recomputeLinkStatus } from "../../db/links/recompute-link-status.ts";
import { bookTransfer } from "../support/book-transfer.ts";
import {
  accepted,
  type BooksLab,
  claim,
  eventsOf,
  fail,
  linkOf,
  makeTransfer,
  openBooks,
  paymentOf,
  read,
  UNITS,
} from "../support/ledger-lab.ts";
import { seedLink, seedLinks, seedMerchant } from "../support/seed.ts";

let lab: BooksLab;
beforeAll(async () => {
  lab = await openBooks({ readTo: 80 });
});
beforeEach(async () => {
  lab.merchant = await seedMerchant(lab.sql);
});
afterAll(() => lab?.stop());

const passEnd = (linkId: string) =>
  lab.sql`update payment_links set expires_at = now() - interval '1 second' where id = ${linkId}`;
const setStatus = (linkId: string, status: string) =>
  lab.sql`
    update payment_links
    set status = ${status}, paid_at = case when ${status} = 'PAID' then now() end
    where id = ${linkId}`;

describe("the link of a failed payment", () => {
  test("the link of a failed payment stays PENDING while an open claim holds it, and only as long as its lease", async () => {
    const [held, over] = [await seedLink(lab.sql, lab.merchant), await seedLink(lab.sql, lab.merchant)];
    for (const linkId of [held, over]) {
      const payment = await accepted(lab, linkId);
      const claimId = await claim(lab, linkId, makeTransfer(lab, 90));
      if (linkId === over) await lab.sql`update claims set lease_until = now() where id = ${claimId}`;
      await fail(lab, payment);
    }
    expect(await linkOf(lab, held)).toMatchObject({ status: "PENDING" });
    expect(await linkOf(lab, over)).toMatchObject({ status: "ACTIVE" });
  });

  test("the link of a failed payment stays PENDING when a transfer of its amount is going to pay it", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    const payment = await accepted(lab, linkId);
    await bookTransfer(lab, { link: linkId });
    await fail(lab, payment);
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "PENDING" });
  });

  test("the link of a failed payment is EXPIRED after its end, with its event", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    const payment = await accepted(lab, linkId);
    await passEnd(linkId);
    await fail(lab, payment);
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "EXPIRED" });
    expect(await eventsOf(lab, linkId)).toEqual(["pending", "expired"]);
  });
});

describe("computing a link's status from the ledger", () => {
  const refresh = (...linkIds: string[]) =>
    lab.sql.begin((tx) => recomputeLinkStatus(tx, { linkIds, isReorg: false }));

  test("gives each link the status of its own transfers, and does not change links that were not named", async () => {
    const [paid = "", open = "", unnamed = ""] = await seedLinks(lab.sql, lab.merchant, { count: 3 });
    await bookTransfer(lab, { link: paid, pays: true });
    await bookTransfer(lab, { link: unnamed, pays: true });
    await setStatus(open, "PENDING");
    await refresh(open, paid);
    const rows = await lab.sql<{ id: string; status: string; paidUnits: bigint | null; isDated: boolean }[]>`
      select id, status, paid_units, paid_at is not null as is_dated
      from payment_links
      where id = any(${[paid, open, unnamed]}::text[])`;
    const of = (id: string) => rows.find((row) => row.id === id);
    expect(of(paid)).toMatchObject({ status: "PAID", paidUnits: UNITS, isDated: true });
    expect(of(open)).toMatchObject({ status: "ACTIVE", paidUnits: null, isDated: false });
    expect(of(unnamed)).toMatchObject({ status: "ACTIVE", paidUnits: null, isDated: false });
  });

  test.each([
    ["OPEN", "PENDING"],
    ["HINT", "ACTIVE"],
    ["REJECTED", "ACTIVE"],
    ["EXPIRED", "ACTIVE"],
  ])("a claim that is %s, within its lease, leaves its link %s", async (state, status) => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    const claimId = await claim(lab, linkId, makeTransfer(lab, 90));
    await lab.sql`update claims set state = ${state} where id = ${claimId}`;
    await refresh(linkId);
    expect(await linkOf(lab, linkId)).toMatchObject({ status });
  });

  test.each(["PENDING", "PAID"])(
    "a link that was %s and that nothing holds is released, with an event",
    async (status) => {
      const linkId = await seedLink(lab.sql, lab.merchant);
      await setStatus(linkId, status);
      await refresh(linkId);
      expect(await linkOf(lab, linkId)).toMatchObject({ status: "ACTIVE" });
      expect(await eventsOf(lab, linkId)).toEqual(["released"]);
    },
  );

  test("a link whose payment's authorization was cancelled is released, with an event", async () => {
    const linkId = await seedLink(lab.sql, lab.merchant);
    const payment = await accepted(lab, linkId);
    await read(lab, [], [payment]);
    expect(await paymentOf(lab, payment)).toMatchObject({ state: "FAILED", reason: "NONCE_USED" });
    expect(await linkOf(lab, linkId)).toEqual({ status: "ACTIVE", exception: "NONE" });
    expect(await eventsOf(lab, linkId)).toEqual(["pending", "released"]);
  });
});
