/** A claim of the only link of its amount, whose transfer is received when another link asks for the same: a hint from then on, and nothing else is. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { demoteContested, demoteUndecided } from "../../db/links/end-claims.ts";
import { type BookedTransfer, bookTransfer } from "../support/book-transfer.ts";
import {
  type BooksLab,
  claim,
  eventsOf,
  linkOf,
  openBooks,
  randomHash,
  UNITS,
} from "../support/ledger-lab.ts";
import { randomAddress, seedLink, seedLinks, seedMerchant } from "../support/seed.ts";

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

const OTHERS: [string, string, (id: string) => Promise<unknown>][] = [
  ["HINT", "is open", async () => {}],
  ["HINT", "is PENDING", (id) => lab.sql`update payment_links set status = 'PENDING' where id = ${id}`],
  [
    "HINT",
    "is a payment of a reusable one",
    async (id) => {
      const [parent = ""] = await seedLinks(lab.sql, lab.merchant, { isReusable: true });
      await lab.sql`update payment_links set parent_id = ${parent} where id = ${id}`;
    },
  ],
  ["OPEN", "is over", (id) => lab.sql`update payment_links set expires_at = now() where id = ${id}`],
  [
    "OPEN",
    "is paid",
    (id) => lab.sql`update payment_links set status = 'PAID', paid_at = now() where id = ${id}`,
  ],
  [
    "OPEN",
    "has another unique amount",
    (id) => lab.sql`update payment_links set pay_amount_units = pay_amount_units + 1 where id = ${id}`,
  ],
  [
    "OPEN",
    "is of another network",
    (id) => lab.sql`update payment_links set network = 'base' where id = ${id}`,
  ],
];
test.each(OTHERS)(
  "a claim is %s where its link's price is the unique amount of another link that %s",
  async (state, _, change) => {
    const other = await seedLink(lab.sql, lab.merchant, { amountUnits: 9n });
    await lab.sql`update payment_links set pay_amount_units = ${UNITS} where id = ${other}`;
    await seedMerchant(lab.sql, { network: "base", address: lab.merchant.address });
    await change(other);
    expect(await claimOf(await open())).toMatchObject({ state });
  },
);

test("a claim is not held back by links to wallets whose addresses end alike", async () => {
  const alike = `0x${randomAddress().slice(2, 26)}${lab.merchant.address.slice(26)}` as const;
  const merchant = await seedMerchant(lab.sql, { address: alike });
  const [, unique] = [await seedLink(lab.sql, merchant), await seedLink(lab.sql, merchant)];
  await lab.sql`update payment_links set pay_amount_units = amount_units, amount_units = 9 where id = ${unique}`;
  expect(await claimOf(await open())).toEqual(OPEN);
});

const NOT_RECEIVED: [string, () => BookedTransfer | Promise<BookedTransfer>][] = [
  ["of another transaction", () => ({ txHash: randomHash() })],
  ["of another network", () => ({ network: "base" })],
  ["that a reorganisation took away", () => ({ status: "ORPHANED" })],
  ["of another sender", () => ({ from: randomAddress() })],
  ["to another wallet", () => ({ to: randomAddress() })],
  [
    "to another merchant's wallet",
    async () => {
      const other = await seedMerchant(lab.sql);
      await seedLink(lab.sql, other);
      return { to: other.address };
    },
  ],
  ["with its link", () => ({ link: linkId })],
];
test.each(NOT_RECEIVED)("an undecided claim waits for its own transfer: not for one %s", async (_, given) => {
  const id = await open();
  await book(await given());
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

test("a proven claim is not ended, nor does another link's claim contest it", async () => {
  const id = await open({ proof: "EOA" });
  await book();
  expect(await demote(id)).toBe(false);
  await lab.sql.begin((tx) => demoteContested(tx, { id, linkId }));
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
