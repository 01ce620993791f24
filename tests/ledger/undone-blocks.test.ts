/** What blocks that leave the chain take back, beside the rows of other blocks, networks and claims, which stay as they are. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import {
  accepted,
  type BooksLab,
  claim,
  linkOf,
  makeBlock,
  makeTransfer,
  openBooks,
  randomHash,
  read,
  signRelay,
  undoAbove,
} from "../support/ledger-lab.ts";
import { seedLink, seedMerchant } from "../support/seed.ts";

const ANCESTOR = 90;
let lab: BooksLab;
let linkId: string;
beforeAll(async () => {
  lab = await openBooks({ readTo: 80 });
});
afterAll(() => lab?.stop());
beforeEach(async () => {
  lab.merchant = await seedMerchant(lab.sql);
  linkId = await seedLink(lab.sql, lab.merchant);
});

async function stateOf(claimId: string) {
  const [row] = await lab.sql<{ state: string }[]>`select state from claims where id = ${claimId}`;
  return row?.state;
}
const setState = (claimId: string, state: string) =>
  lab.sql`update claims set state = ${state} where id = ${claimId}`;

describe("the claim of an undone transfer", () => {
  async function matched(block: number) {
    const transfer = makeTransfer(lab, block);
    const claimId = await claim(lab, linkId, transfer);
    await read(lab, [transfer]);
    expect(await stateOf(claimId)).toBe("MATCHED");
    return { transfer, claimId };
  }

  test("is open again; those of other links and transactions stay matched", async () => {
    const { transfer, claimId } = await matched(ANCESTOR + 1);
    const otherLink = await claim(lab, await seedLink(lab.sql, lab.merchant), transfer, "EOA");
    const otherTransaction = await claim(lab, linkId, { ...transfer, txHash: randomHash() }, "EOA");
    for (const id of [otherLink, otherTransaction]) await setState(id, "MATCHED");
    await undoAbove(lab, ANCESTOR);
    expect(await Promise.all([claimId, otherLink, otherTransaction].map(stateOf))).toEqual([
      "OPEN",
      "MATCHED",
      "MATCHED",
    ]);
  });

  test.each(["HINT", "DISPUTED", "REJECTED", "EXPIRED"])("stays ended when it was %s", async (state) => {
    const { claimId } = await matched(ANCESTOR + 1);
    await setState(claimId, state);
    await undoAbove(lab, ANCESTOR);
    expect(await stateOf(claimId)).toBe(state);
    const rows =
      await lab.sql`select status from transactions where claim_id = ${claimId} or link_id = ${linkId}`;
    expect([...rows]).toEqual([{ status: "ORPHANED" }]);
  });

  test("stays matched when the transfer had been undone before, and is in a block that stays", async () => {
    const { transfer, claimId } = await matched(ANCESTOR + 1);
    await undoAbove(lab, ANCESTOR);
    await read(lab, [{ ...transfer, block: makeBlock(ANCESTOR - 1) }]);
    expect(await stateOf(claimId)).toBe("MATCHED");
    await undoAbove(lab, ANCESTOR);
    expect(await stateOf(claimId)).toBe("MATCHED");
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "PAID" });
  });
});

test("relays of undone blocks may be mined again; those of lower blocks stay mined", async () => {
  const mined = async (block: number) => {
    const payment = await accepted(lab, await seedLink(lab.sql, lab.merchant));
    const { relayId } = await signRelay(lab, payment);
    await lab.sql`
      update relays set state = 'MINED', block_number = ${block}, block_hash = ${randomHash()} where id = ${relayId}`;
    return relayId;
  };
  const [stays, undone] = [await mined(ANCESTOR), await mined(ANCESTOR + 1)];
  await undoAbove(lab, ANCESTOR);
  const rows = await lab.sql<{ id: bigint; state: string }[]>`
    select id, state from relays where id = any(${[stays, undone].map(String)}::text[]::bigint[])`;
  expect(Object.fromEntries(rows.map(({ id, state }) => [String(id), state]))).toEqual({
    [String(stays)]: "MINED",
    [String(undone)]: "BROADCAST",
  });
});

test("links that were created on undone blocks may be paid from the ancestor on; another network's keep their block", async () => {
  const elsewhere = await seedMerchant(lab.sql, { network: "base" });
  const links = [linkId, await seedLink(lab.sql, lab.merchant), await seedLink(lab.sql, elsewhere)];
  const [above = "", below = "", other = ""] = links;
  await lab.sql`update payment_links set created_block = 95 where id = any(${[above, other]}::text[])`;
  await lab.sql`update payment_links set created_block = 85 where id = ${below}`;
  await undoAbove(lab, ANCESTOR);
  const blockOf = async (id: string) => {
    const [row] = await lab.sql<{ block: bigint }[]>`
      select created_block as block from payment_links where id = ${id}`;
    return Number(row?.block);
  };
  expect(await Promise.all(links.map(blockOf))).toEqual([ANCESTOR, 85, 95]);
});
