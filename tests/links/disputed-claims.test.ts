/** A proof for a transfer that counts for another link: it moves the transfer while that link is PENDING, and later only says so to the merchant. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { disputeTransfers, findPendingLinks } from "../../db/links/claim-proofs.ts";
import {
  type BooksLab,
  claim,
  linkOf,
  lookBack,
  makeTransfer,
  openBooks,
  read,
} from "../support/ledger-lab.ts";
import { seedLink, seedMerchant } from "../support/seed.ts";

let lab: BooksLab;
beforeAll(async () => {
  lab = await openBooks({ readTo: 80 });
});
afterAll(() => lab?.stop());
beforeEach(async () => {
  lab.merchant = await seedMerchant(lab.sql);
});

test.each([
  ["PENDING", true],
  ["ACTIVE", false],
  ["PAID", false],
  ["EXPIRED", false],
  ["CANCELLED", false],
])("a link that is %s may lose its transfer: %p", async (status, isFound) => {
  const link = await seedLink(lab.sql, lab.merchant);
  await lab.sql`
    update payment_links
    set status = ${status}, paid_at = case when ${status} = 'PAID' then now() end
    where id = ${link}`;
  expect(await lab.sql.begin((tx) => findPendingLinks(tx, [link]))).toEqual(isFound ? [link] : []);
});

describe("a proof for another link", () => {
  /** A transfer that paid the only link of its amount, and a proof of its sender for a link that was created since. */
  async function proven({ isDeep }: { isDeep: boolean }) {
    const first = await seedLink(lab.sql, lab.merchant);
    const transfer = makeTransfer(lab, 90);
    await read(lab, [transfer], [], { isDeep });
    const second = await seedLink(lab.sql, lab.merchant);
    // as if the payer had been given both before the block
    await lab.sql`update payment_links set created_block = 80, created_at = now() - interval '1 minute' where id = ${second}`;
    return { first, second, transfer, claimId: await claim(lab, second, transfer, "EOA") };
  }

  async function stateOf(claimId: string) {
    const [row] = await lab.sql<{ state: string }[]>`select state from claims where id = ${claimId}`;
    return row?.state;
  }

  test("takes the transfer from a link that is PENDING", async () => {
    const { first, second, claimId } = await proven({ isDeep: false });
    await lookBack(lab);
    expect(await stateOf(claimId)).toBe("MATCHED");
    expect(await linkOf(lab, first)).toMatchObject({ status: "ACTIVE" });
    expect(await linkOf(lab, second)).toMatchObject({ status: "PENDING" });
  });

  test("leaves the transfer to a link that is PAID", async () => {
    const { first, second, claimId } = await proven({ isDeep: true });
    await lookBack(lab);
    expect(await stateOf(claimId)).toBe("DISPUTED");
    expect(await linkOf(lab, first)).toMatchObject({ status: "PAID" });
    expect(await linkOf(lab, second)).toMatchObject({ status: "ACTIVE" });
  });

  test.each(["HINT", "DISPUTED", "MATCHED", "REJECTED", "EXPIRED"])(
    "disputes nothing once its claim is %s",
    async (state) => {
      const { second, transfer, claimId } = await proven({ isDeep: true });
      await lab.sql`update claims set state = ${state} where id = ${claimId}`;
      const [row] = await lab.sql<
        { id: bigint }[]
      >`select id from transfers where tx_hash = ${transfer.txHash}`;
      const dispute = { transferId: row?.id ?? 0n, claimId, claimedLinkId: second };
      await lab.sql.begin((tx) => disputeTransfers(tx, [dispute]));
      expect(await stateOf(claimId)).toBe(state);
      const events = await lab.sql`
        select from events where user_id = ${lab.merchant.userId} and type = 'transaction.disputed'`;
      expect(events).toHaveLength(0);
    },
  );
});
