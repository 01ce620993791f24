/** Claims as they are looked up, and what becomes of them when another link proves that the transfer is its own. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { newLinkId } from "../../core/domain/ids.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { releaseMatchedClaims } from "../../db/links/claim-proofs.ts";
import { findClaim, findOpenClaim } from "../../db/links/claims.ts";
import { type BooksLab, claim, makeTransfer, openBooks, randomHash } from "../support/ledger-lab.ts";
import { randomAddress, seedLink, seedMerchant } from "../support/seed.ts";

const ENDED = ["HINT", "DISPUTED", "MATCHED", "REJECTED", "EXPIRED"];
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

const open = () => claim(lab, linkId, { ...makeTransfer(lab, 90), txHash, from: sender });

test("a claim is found by its link, transaction and sender together", async () => {
  await open();
  const key = { linkId, txHash, clientAddress: sender };
  expect(await findClaim(lab.sql, key)).toMatchObject(key);
  expect(await findClaim(lab.sql, { ...key, linkId: newLinkId() })).toBeUndefined();
  expect(await findClaim(lab.sql, { ...key, txHash: randomHash() })).toBeUndefined();
  expect(await findClaim(lab.sql, { ...key, clientAddress: randomAddress() })).toBeUndefined();
});

test("a claim is checked while it is open, and no longer", async () => {
  const id = await open();
  expect(await findOpenClaim(lab.sql, id)).toMatchObject({ id, linkId, isProven: false });
  for (const state of ENDED) {
    await lab.sql`update claims set state = ${state} where id = ${id}`;
    expect(await findOpenClaim(lab.sql, id)).toBeUndefined();
  }
});

describe("a link that loses a transfer to a proof for another link", () => {
  const release = () => lab.sql.begin((tx) => releaseMatchedClaims(tx, [{ linkId, txHash }]));
  const stateOf = async () => {
    const found = await findClaim(lab.sql, { linkId, txHash, clientAddress: sender });
    return found && [found.state as string, found.reason];
  };
  const setState = (state: string) =>
    lab.sql`update claims set state = ${state} where link_id = ${linkId} and tx_hash = ${txHash}`;

  test("ends the claim that was matched with it", async () => {
    await open();
    await setState("MATCHED");
    await release();
    expect(await stateOf()).toEqual(["EXPIRED", "counted_elsewhere"]);
  });

  test.each(["OPEN", ...ENDED.filter((state) => state !== "MATCHED")])(
    "does not end a claim that is %s",
    async (state) => {
      await open();
      await setState(state);
      await release();
      expect(await stateOf()).toEqual([state, null]);
    },
  );

  test("does not end claims of other transactions and links", async () => {
    await open();
    await setState("MATCHED");
    await lab.sql.begin((tx) =>
      releaseMatchedClaims(tx, [
        { linkId, txHash: randomHash() },
        { linkId: newLinkId(), txHash },
      ]),
    );
    expect(await stateOf()).toEqual(["MATCHED", null]);
  });
});
