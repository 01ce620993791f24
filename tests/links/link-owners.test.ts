/** Links belong to one merchant: no other user can read, count or cancel them. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { cancelLink, countLinks, findLink } from "../../db/links/links.ts";
import { bookTransfer } from "../support/book-transfer.ts";
import { accept, type BooksLab, claim, linkOf, makeTransfer, openBooks } from "../support/ledger-lab.ts";
import { type SeededMerchant, seedLink, seedLinks, seedMerchant } from "../support/seed.ts";

let lab: BooksLab;
let stranger: SeededMerchant;

beforeAll(async () => {
  lab = await openBooks({ readTo: 80 });
});
afterAll(() => lab?.stop());
beforeEach(async () => {
  lab.merchant = await seedMerchant(lab.sql);
  stranger = await seedMerchant(lab.sql);
});

test("a link is found only by its owner", async () => {
  const id = await seedLink(lab.sql, lab.merchant);
  expect(await findLink(lab.sql, { id, userId: lab.merchant.userId })).toMatchObject({ id });
  expect(await findLink(lab.sql, { id, userId: stranger.userId })).toBeUndefined();
});

test("links are counted for their owner by current status: ACTIVE ones past their expiry as EXPIRED", async () => {
  const [paid = "", cancelled = ""] = await seedLinks(lab.sql, lab.merchant, { count: 2, expiresInS: -1 });
  await lab.sql`update payment_links set status = 'PAID', paid_at = now(), paid_units = 7 where id = ${paid}`;
  await lab.sql`update payment_links set status = 'CANCELLED' where id = ${cancelled}`;
  await seedLinks(lab.sql, lab.merchant, { count: 3, expiresInS: -1 });
  await seedLinks(lab.sql, lab.merchant, { count: 5 });
  await seedLinks(lab.sql, stranger, { count: 11, expiresInS: -1 });
  await seedLinks(lab.sql, stranger, { count: 13 });
  expect(await countLinks(lab.sql, lab.merchant.userId)).toMatchObject({
    ...{ ACTIVE: 5, EXPIRED: 3, PAID: 1, CANCELLED: 1, PENDING: 0, all: 10, paidUnits: 7n },
  });
});

describe("cancelling", () => {
  const cancel = (id: string, { userId } = lab.merchant) =>
    lab.sql.begin((tx) => cancelLink(tx, { id, userId }));

  test("a link is cancelled only by its owner", async () => {
    const id = await seedLink(lab.sql, lab.merchant);
    expect(await cancel(id, stranger)).toBeUndefined();
    expect(await linkOf(lab, id)).toMatchObject({ status: "ACTIVE" });
    expect(await cancel(id)).toMatchObject({ id, status: "CANCELLED" });
  });

  test.each(["PAID", "EXPIRED", "CANCELLED"])("a link that is %s is not cancelled", async (status) => {
    const id = await seedLink(lab.sql, lab.merchant);
    await lab.sql`
      update payment_links
      set status = ${status}, paid_at = case when ${status} = 'PAID' then now() end
      where id = ${id}`;
    expect(await cancel(id)).toBeUndefined();
    expect(await linkOf(lab, id)).toMatchObject({ status });
  });

  test("a link past its expiry is not cancelled, even if no job has moved it to EXPIRED", async () => {
    expect(await cancel(await seedLink(lab.sql, lab.merchant, { expiresInS: -1 }))).toBeUndefined();
  });

  test("a link that a payment holds is not cancelled; one held only by a claim is", async () => {
    const [paying, claimed] = [await seedLink(lab.sql, lab.merchant), await seedLink(lab.sql, lab.merchant)];
    expect(await accept(lab, paying)).toBeDefined();
    await claim(lab, claimed, makeTransfer(lab, 90));
    expect(await linkOf(lab, claimed)).toMatchObject({ status: "PENDING" });
    expect(await cancel(paying)).toBeUndefined();
    expect(await cancel(claimed)).toMatchObject({ status: "CANCELLED" });
  });

  test.each([true, false])(
    "a link with a transfer of its amount is not cancelled until that has left the chain (pays: %p)",
    async (pays) => {
      const id = await seedLink(lab.sql, lab.merchant);
      await bookTransfer(lab, { link: id, pays, status: "DETECTED" });
      await lab.sql`update payment_links set status = 'PENDING' where id = ${id}`;
      expect(await cancel(id)).toBeUndefined();
      await lab.sql`update transfers set status = 'ORPHANED' where link_id = ${id}`;
      expect(await cancel(id)).toMatchObject({ status: "CANCELLED" });
    },
  );
});
