/** A claim of the only link of its amount, whose transfer is received when another link asks for the same: a hint from then on, and nothing else is. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { demoteUndecided } from "../../db/links/end-claims.ts";
import { type BookedTransfer, bookTransfer } from "../support/book-transfer.ts";
import { type BooksLab, claim, eventsOf, linkOf, openBooks, randomHash } from "../support/ledger-lab.ts";
import { randomAddress, seedLink, seedMerchant } from "../support/seed.ts";

let lab: BooksLab;
let linkId: string;
let txHash: Hex;
let sender: Hex;
beforeAll(async () => {
  lab = await openBooks({ readTo: 80 });
});
afterAll(() => lab?.stop());
beforeEach(async () => {
  lab.merchant = await seedMerchant(lab.sql);
  linkId = await seedLink(lab.sql, lab.merchant);
  [txHash, sender] = [randomHash(), randomAddress()];
});

/** Of a transaction that a block may hold, unless said otherwise. */
const open = ({ proof = null, mayHaveBlock = true }: { proof?: "EOA" | null; mayHaveBlock?: boolean } = {}) =>
  claim(lab, linkId, { txHash, from: sender }, proof, { mayHaveBlock });
const book = (given: BookedTransfer = {}) => bookTransfer(lab, { from: sender, txHash, ...given });
const demote = (id: string) => lab.sql.begin((tx) => demoteUndecided(tx, { id, linkId }));
async function claimOf(id: string) {
  const [row] = await lab.sql<{ state: string; reason: string | null; rows: number }[]>`
    select state, reason, (select count(*)::int from transactions where claim_id = claims.id) as rows
    from claims
    where id = ${id}`;
  return row;
}
const OPEN = { state: "OPEN", reason: null, rows: 1 };

test("an undecided claim releases its link and leaves no row, once", async () => {
  const id = await open();
  await book();
  expect([await demote(id), await demote(id)]).toEqual([true, false]);
  expect(await claimOf(id)).toEqual({ state: "HINT", reason: "ambiguous", rows: 0 });
  expect(await linkOf(lab, linkId)).toMatchObject({ status: "ACTIVE" });
  expect((await eventsOf(lab, linkId)).slice(-2)).toEqual(["pending", "released"]);
});

const NOT_RECEIVED: [string, () => BookedTransfer][] = [
  ["of another transaction", () => ({ txHash: randomHash() })],
  ["of another network", () => ({ network: "base" })],
  ["that a reorganisation took away", () => ({ status: "ORPHANED" })],
  ["of another sender", () => ({ from: randomAddress() })],
  ["to another wallet", () => ({ to: randomAddress() })],
  ["with its link", () => ({ link: linkId })],
];
test.each(NOT_RECEIVED)("an undecided claim waits for its own transfer: not for one %s", async (_, given) => {
  const id = await open();
  await book(given());
  expect(await demote(id)).toBe(false);
  expect(await claimOf(id)).toEqual(OPEN);
});

test("an early claim is not ended, unless its merchant trusts only proofs", async () => {
  const id = await open({ mayHaveBlock: false });
  await book();
  expect(await demote(id)).toBe(false);
  expect(await claimOf(id)).toEqual(OPEN);
  await lab.sql`update users set claim_policy = 'proven' where id = ${lab.merchant.userId}`;
  expect(await demote(id)).toBe(true);
});

test("a proven claim is not ended", async () => {
  const id = await open({ proof: "EOA" });
  await book();
  expect(await demote(id)).toBe(false);
  expect(await claimOf(id)).toEqual(OPEN);
});

test.each(["HINT", "DISPUTED", "MATCHED", "REJECTED", "EXPIRED"])(
  "a claim that is %s is not ended",
  async (state) => {
    const id = await open();
    await book();
    await lab.sql`update claims set state = ${state} where id = ${id}`;
    expect(await demote(id)).toBe(false);
    expect(await claimOf(id)).toMatchObject({ state, rows: 1 });
  },
);
