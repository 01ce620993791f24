/** What the ledger says about an authorization that the chain calls used: each condition just inside and just outside. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import type { NewPayment } from "../../db/payments/accept-payments.ts";
import { checkUsedAuthorization } from "../../db/payments/check-used-authorization.ts";
import { type BookedTransfer, bookTransfer } from "../support/book-transfer.ts";
import { accept, type BooksLab, NETWORK, openBooks, randomHash } from "../support/ledger-lab.ts";
import { randomAddress, seedLink, seedMerchant } from "../support/seed.ts";

/** Where the ledger's cursor stands. */
const READ_TO = 100;
let lab: BooksLab;
let linkId: string;
let payment: NewPayment;

beforeAll(async () => {
  lab = await openBooks({ readTo: READ_TO });
});
afterAll(() => lab?.stop());
beforeEach(async () => {
  lab.merchant = await seedMerchant(lab.sql);
  await setJoined(true);
  await lab.sql`update cursors set updated_at = now()`;
  linkId = await seedLink(lab.sql, lab.merchant);
  const taken = await accept(lab, linkId);
  if (!taken) throw new Error("the payment was not accepted");
  payment = taken;
});

const setJoined = (isJoined: boolean) =>
  lab.sql`
    update wallets
    set backfilled_at = ${isJoined ? new Date() : null}
    where id = ${lab.merchant.walletId}`;
const consult = (seenAtBlock = BigInt(READ_TO)) =>
  lab.sql.begin((tx) => checkUsedAuthorization(tx, { paymentId: payment.id, seenAtBlock }));
/** The transfer of the payment's own authorization, changed as said. */
const book = (change: BookedTransfer = {}) =>
  bookTransfer(lab, { from: payment.payer, nonce: payment.nonce, ...change });

describe("whether the ledger can tell", () => {
  test("it can once its cursor is at the block, not one block earlier", async () => {
    expect(await consult(BigInt(READ_TO) + 1n)).toBe("too-early");
    expect(await consult()).toBe("not-ours");
  });

  test("it can't when the indexer has been silent for 15 seconds, and can after 10", async () => {
    await lab.sql`update cursors set updated_at = now() - interval '15 seconds' where network = ${NETWORK}`;
    expect(await consult()).toBe("too-early");
    await lab.sql`update cursors set updated_at = now() - interval '10 seconds' where network = ${NETWORK}`;
    expect(await consult()).toBe("not-ours");
  });

  test("it can't before the payee's wallet is back-filled", async () => {
    await setJoined(false);
    await book();
    expect(await consult()).toBe("too-early");
    await setJoined(true);
    expect(await consult()).toBe("came-to-us");
  });

  test("it can for an address that is not a wallet of the service", async () => {
    await lab.sql`update payments set recipient = ${randomAddress()} where id = ${payment.id}`;
    expect(await consult()).toBe("not-ours");
  });
});

describe("whether the money reached the payment's payee", () => {
  test("it did with the transfer of this authorization, counted for no link or for this one", async () => {
    await book();
    expect(await consult()).toBe("came-to-us");
    await lab.sql`update transfers set link_id = ${linkId} where from_address = ${payment.payer}`;
    expect(await consult()).toBe("came-to-us");
  });

  test("it did not when another link was paid with it", async () => {
    await book({ link: await seedLink(lab.sql, lab.merchant) });
    expect(await consult()).toBe("not-ours");
  });

  test("it did not with a transfer of another payer, nonce or payee", async () => {
    await book({ from: randomAddress() });
    await book({ nonce: randomHash() });
    await book({ nonce: null });
    await book({ to: randomAddress() });
    expect(await consult()).toBe("not-ours");
  });

  test("it did not with the same transfer on another network", async () => {
    await book();
    await lab.sql`update transfers set network = 'base' where from_address = ${payment.payer}`;
    expect(await consult()).toBe("not-ours");
  });

  test("it did not when the transfer's block was reorganised away", async () => {
    await book({ status: "ORPHANED" });
    expect(await consult()).toBe("not-ours");
  });

  test("a payment without a link is settled by its authorization's log alone", async () => {
    await book();
    await lab.sql`delete from transactions where payment_id = ${payment.id}`;
    await lab.sql`update payments set link_id = null, facilitator_user_id = ${lab.merchant.userId} where id = ${payment.id}`;
    expect(await consult()).toBe("not-ours");
  });
});
