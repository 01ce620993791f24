/** What blocks that leave the chain take back, beside the rows of other blocks, networks and claims, which stay as they are. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { startCursor } from "../../db/ledger/cursors.ts";
import { ensureLane } from "../../db/relays/nonces.ts";
import { bookTransfer } from "../support/book-transfer.ts";
import {
  accepted,
  type BooksLab,
  claim,
  linkOf,
  makeBlock,
  makeTransfer,
  NETWORK,
  openBooks,
  randomHash,
  read,
  signRelay,
  undoAbove,
} from "../support/ledger-lab.ts";
import { randomAddress, seedLink, seedMerchant } from "../support/seed.ts";

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

test("nothing of another network is undone, however high its block", async () => {
  const { sql } = lab;
  const ELSEWHERE = "base";
  const above = { tx_hash: randomHash(), block_number: ANCESTOR + 5 };
  const [moved, ended] = [
    await accepted(lab, linkId),
    await accepted(lab, await seedLink(sql, lab.merchant)),
  ];
  const { relayId } = await signRelay(lab, moved);
  const relayer = randomAddress();
  await ensureLane(sql, { network: ELSEWHERE, relayer }, 0n);
  const mined = { ...above, network: ELSEWHERE, state: "MINED" };
  await sql`
    update relays set ${sql({ ...mined, relayer, block_hash: randomHash() })} where id = ${String(relayId)}::bigint`;
  await sql`update payments set ${sql({ ...mined, log_index: 1 })} where id = ${moved.id}`;
  const failed = { ...above, state: "FAILED", reason: "EXPIRED_TRANSFER" };
  await sql`update payments set ${sql(failed)} where id = ${ended.id}`;
  const { walletId } = await seedMerchant(sql, { network: ELSEWHERE });
  await sql`update wallets set booked_number = ${ANCESTOR + 5}, booked_units = 7 where id = ${walletId}`;
  await startCursor(sql, ELSEWHERE, { number: ANCESTOR + 5, hash: randomHash() });
  await sql`update cursors set reconciled_number = ${ANCESTOR + 5}`;
  // a sum that ends in a block that stays
  await sql`update wallets set booked_number = ${ANCESTOR}, booked_units = 8 where id = ${lab.merchant.walletId}`;
  const from = randomAddress();
  await bookTransfer(lab, { network: ELSEWHERE, from });
  await undoAbove(lab, ANCESTOR);
  const [rows] = await sql`
    select
      (select status from transfers where from_address = ${from}) as transfer,
      (select state from relays where id = ${String(relayId)}::bigint) as relay,
      (select state from payments where id = ${moved.id}) as moved,
      (select state from payments where id = ${ended.id}) as ended,
      (select booked_units from wallets where id = ${walletId}) as booked,
      (select booked_units from wallets where id = ${lab.merchant.walletId}) as own_booked,
      (select reconciled_number from cursors where network = ${ELSEWHERE}) as reconciled,
      (select reconciled_number from cursors where network = ${NETWORK}) as own`;
  expect(rows).toMatchObject({
    ...{ transfer: "CONFIRMED", relay: "MINED", moved: "MINED", ended: "FAILED" },
    ...{ booked: 7n, ownBooked: 8n, reconciled: BigInt(ANCESTOR + 5), own: BigInt(ANCESTOR) },
  });
  await undoAbove(lab, ANCESTOR + 3);
  const [own] = await sql`select reconciled_number from cursors where network = ${NETWORK}`;
  expect(own).toEqual({ reconciledNumber: BigInt(ANCESTOR) });
});

test("the history of transfers in blocks that stay is left alone, claimed or not", async () => {
  const [stays, undone] = [makeTransfer(lab, ANCESTOR), makeTransfer(lab, ANCESTOR + 1)];
  const other = await seedLink(lab.sql, lab.merchant);
  await claim(lab, linkId, stays, "EOA");
  await claim(lab, other, undone, "EOA");
  const plain = makeTransfer(lab, ANCESTOR, { amountUnits: 3n });
  const payment = await accepted(lab, await seedLink(lab.sql, lab.merchant));
  const settled = makeTransfer(lab, ANCESTOR, { payment });
  await read(lab, [stays, plain, settled, undone]);
  await undoAbove(lab, ANCESTOR);
  const rows = await lab.sql<{ txHash: string; status: string }[]>`
    select tx_hash, status from transactions where owner = owner_key(${lab.merchant.userId})`;
  expect(Object.fromEntries(rows.map(({ txHash, status }) => [txHash, status]))).toEqual({
    [stays.txHash]: "CONFIRMED",
    [plain.txHash]: "CONFIRMED",
    [settled.txHash]: "CONFIRMED",
    [undone.txHash]: "PENDING",
  });
});
