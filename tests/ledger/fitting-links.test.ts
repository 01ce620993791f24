/** The links that a transfer could pay, as the ledger finds them: those that are open at its block, and those paid since. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { CANDIDATES_MAX } from "../../core/domain/attribute-transfers.ts";
import { linkTag } from "../../core/domain/link-tag.ts";
import { loadSnapshot } from "../../db/ledger/attribution.ts";
import type { TakenLink } from "../../db/ledger/rebuild-attributions.ts";
import { bookTransfer } from "../support/book-transfer.ts";
import {
  type BooksLab,
  linkOf,
  makeBlock,
  makeTransfer,
  NETWORK,
  openBooks,
  randomHash,
  read,
  UNITS,
} from "../support/ledger-lab.ts";
import { randomAddress, seedLink, seedLinks, seedMerchant } from "../support/seed.ts";

/** Of every booked transfer. */
const PAID_AT = 99;
const PAY_UNITS = UNITS + 7n;
let lab: BooksLab;

beforeAll(async () => {
  lab = await openBooks();
});
afterAll(() => lab?.stop());
beforeEach(async () => {
  lab.merchant = await seedMerchant(lab.sql);
});

/** What the ledger holds about a transfer to the merchant. */
function factsFor(amountUnits: bigint, blockNumber = PAID_AT + 1, takenLinks: readonly TakenLink[] = []) {
  const transfer = {
    ...{ from: randomAddress(), to: lab.merchant.address, amountUnits, authorizationNonce: undefined },
    ...{ txHash: randomHash(), logIndex: 1, blockNumber, blockTimeMs: Date.now() + 1_000 },
  };
  return lab.sql.begin((tx) =>
    loadSnapshot(tx, NETWORK, { transfers: [transfer], payments: [], takenLinks }),
  );
}

async function fitting(amountUnits: bigint, blockNumber?: number): Promise<string[]> {
  return (await factsFor(amountUnits, blockNumber)).links.map(({ id }) => id).sort();
}

/** A link with an amount of its own. */
async function uniqueLink(merchant = lab.merchant): Promise<string> {
  const id = await seedLink(lab.sql, merchant);
  await lab.sql`update payment_links set pay_amount_units = ${PAY_UNITS} where id = ${id}`;
  return id;
}

async function paidLink(given: Partial<Parameters<typeof bookTransfer>[1]> = {}): Promise<string> {
  const link = await seedLink(lab.sql, lab.merchant);
  await bookTransfer(lab, { link, pays: true, ...given });
  await lab.sql`update payment_links set status = 'PAID', paid_at = now() where id = ${link}`;
  return link;
}

const candidatesOf = async (txHash: string) => {
  const [row] = await lab.sql<{ linkId: string | null; candidates: string[] | null }[]>`
    select link_id, candidates from transfers where tx_hash = ${txHash}`;
  return row && { linkId: row.linkId, candidates: row.candidates?.toSorted() };
};

describe("a link that is not paid", () => {
  test("fits a transfer of its amount or of its unique amount to its wallet", async () => {
    const [plain, unique] = [await seedLink(lab.sql, lab.merchant), await uniqueLink()];
    expect(await fitting(UNITS)).toEqual([plain, unique].sort());
    expect(await fitting(PAY_UNITS)).toEqual([unique]);
    expect(await fitting(PAY_UNITS + 1n)).toEqual([]);
  });

  test("fits none on another network or to another wallet, nor once it is paid", async () => {
    const own = await uniqueLink();
    await uniqueLink(await seedMerchant(lab.sql, { network: "base", address: lab.merchant.address }));
    await uniqueLink(await seedMerchant(lab.sql));
    const paid = await uniqueLink();
    await lab.sql`update payment_links set status = 'PAID', paid_at = now() where id = ${paid}`;
    for (const units of [UNITS, PAY_UNITS]) expect(await fitting(units)).toEqual([own]);
  });

  test("fits none to a wallet whose address ends alike, open or paid", async () => {
    const alike = `0x${randomAddress().slice(2, 26)}${lab.merchant.address.slice(26)}` as const;
    const other = await seedMerchant(lab.sql, { address: alike });
    await uniqueLink(other);
    const paid = await seedLink(lab.sql, other);
    await bookTransfer(lab, { link: paid, pays: true, to: alike });
    await lab.sql`update payment_links set status = 'PAID', paid_at = now() where id = ${paid}`;
    const own = await uniqueLink();
    for (const units of [UNITS, PAY_UNITS]) expect(await fitting(units, PAID_AT - 1)).toEqual([own]);
  });

  test("fits by its price only if it is paid once, and no transfer on the chain pays it", async () => {
    const open = await seedLink(lab.sql, lab.merchant);
    await seedLinks(lab.sql, lab.merchant, { isReusable: true });
    const [seen, undone, other] = await seedLinks(lab.sql, lab.merchant, { count: 3 });
    await bookTransfer(lab, { link: seen ?? null, pays: true, status: "DETECTED" });
    await bookTransfer(lab, { link: undone ?? null, pays: true, status: "ORPHANED" });
    await bookTransfer(lab, { link: other ?? null, pays: false });
    expect(await fitting(UNITS)).toEqual([open, undone ?? "", other ?? ""].sort());
    // a transfer that was received for a link without paying it leaves the link to others
    const { links } = await factsFor(UNITS);
    expect(links.map(({ isTaken }) => isTaken)).toEqual([false, false, false]);
  });

  test("is paid by a transfer of its unique amount alone", async () => {
    const [other, unique] = [await seedLink(lab.sql, lab.merchant), await uniqueLink()];
    await read(lab, [makeTransfer(lab, 120, { amountUnits: PAY_UNITS })]);
    expect(await linkOf(lab, unique)).toMatchObject({ status: "PAID" });
    expect(await linkOf(lab, other)).toMatchObject({ status: "ACTIVE" });
  });
});

test("among links of one price, those already taken by a transfer do not displace a free one", async () => {
  const taken = await seedLinks(lab.sql, lab.merchant, { count: 3 * CANDIDATES_MAX });
  const link = await seedLink(lab.sql, lab.merchant);
  const takenLinks = taken.map((linkId) => ({ linkId, blockNumber: PAID_AT, logIndex: 1 }));
  const { links } = await factsFor(UNITS, PAID_AT + 1, takenLinks);
  expect(links.filter(({ isTaken }) => !isTaken).map(({ id }) => id)).toEqual([link]);
});

describe("a link that is paid, in addition to an open one of its amount,", () => {
  let open: string;
  beforeEach(async () => {
    open = await seedLink(lab.sql, lab.merchant);
  });

  test("fits an earlier transfer and one of the same block, and the position of its payment is known", async () => {
    const link = await paidLink();
    for (const blockNumber of [PAID_AT - 1, PAID_AT])
      expect(await fitting(UNITS, blockNumber)).toEqual([link, open].sort());
    const { links } = await factsFor(UNITS, PAID_AT - 1);
    expect(links.find(({ id }) => id === link)).toMatchObject({
      ...{ isTaken: true, paidAt: { blockNumber: PAID_AT, logIndex: 1 } },
    });
    expect(links.find(({ id }) => id === open)).toMatchObject({ isTaken: false, paidAt: undefined });
  });

  test("fits no later transfer and none of another amount", async () => {
    await paidLink();
    const other = await seedLink(lab.sql, lab.merchant, { amountUnits: UNITS + 1n });
    expect(await fitting(UNITS, PAID_AT + 1)).toEqual([open]);
    expect(await fitting(UNITS + 1n, PAID_AT - 1)).toEqual([other]);
  });

  test("fits none by a transfer that left the chain, does not pay it, or went elsewhere", async () => {
    await paidLink({ status: "ORPHANED" });
    await paidLink({ pays: false });
    await paidLink({ to: randomAddress() });
    await paidLink({ network: "base" });
    expect(await fitting(UNITS, PAID_AT - 1)).toEqual([open]);
  });

  test("leaves an earlier transfer without evidence to its merchant", async () => {
    const paid = await seedLink(lab.sql, lab.merchant);
    const [tagged, early] = [makeTransfer(lab, 125, { tag: linkTag(paid) }), makeTransfer(lab, 124)];
    await read(lab, [tagged]);
    expect(await linkOf(lab, paid)).toMatchObject({ status: "PAID" });
    await read(lab, [early]);
    expect(await candidatesOf(early.txHash)).toEqual({ linkId: null, candidates: [paid, open].sort() });
    expect(await linkOf(lab, open)).toMatchObject({ status: "ACTIVE" });
  });
});

test("transfers that name all links of a price but two leave a transfer without a name to both candidates", async () => {
  const named = await seedLinks(lab.sql, lab.merchant, { count: CANDIDATES_MAX - 1 });
  const last = await seedLinks(lab.sql, lab.merchant, { count: 2, expiresInS: 7_200 });
  const block = makeBlock(130);
  const tagged = named.map((id, logIndex) => makeTransfer(lab, 130, { block, logIndex, tag: linkTag(id) }));
  const plain = makeTransfer(lab, 130, { block, logIndex: named.length });
  await read(lab, [...tagged, plain]);
  for (const id of named) expect(await linkOf(lab, id)).toMatchObject({ status: "PAID" });
  for (const id of last) expect(await linkOf(lab, id)).toMatchObject({ status: "ACTIVE" });
  expect(await candidatesOf(plain.txHash)).toEqual({ linkId: null, candidates: last.toSorted() });
});
