/** Whether the logs of a claimed transaction count for another link already. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { areLogsTaken } from "../../db/links/claims.ts";
import type { NewPayment } from "../../db/payments/accept-payments.ts";
import { bookTransfer } from "../support/book-transfer.ts";
import { accept, type BooksLab, NETWORK, openBooks, randomHash } from "../support/ledger-lab.ts";
import { randomAddress, seedLink, seedMerchant } from "../support/seed.ts";

let lab: BooksLab;
let linkId: string;
let payment: NewPayment;

beforeAll(async () => {
  lab = await openBooks({ readTo: 80 });
});
afterAll(() => lab?.stop());
beforeEach(async () => {
  lab.merchant = await seedMerchant(lab.sql);
  linkId = await seedLink(lab.sql, lab.merchant);
  const taken = await accept(lab, linkId);
  if (!taken) throw new Error("the link accepted no payment");
  payment = taken;
});

const setState = (state: string, reason: string | null = null) =>
  lab.sql`update payments set state = ${state}, reason = ${reason} where id = ${payment.id}`;

describe("whether a transaction's logs count for another link", () => {
  let other: string;
  let txHash: Hex;
  beforeEach(async () => {
    other = await seedLink(lab.sql, lab.merchant);
    txHash = randomHash();
  });

  type Asked = { claimed?: string; payer?: Hex; nonces?: Hex[]; isProven?: boolean };
  /** Its log executed the payment's authorization, and is claimed for the other link, unless said otherwise. */
  const areTaken = ({
    claimed = other,
    payer = payment.payer,
    nonces = [payment.nonce],
    isProven = false,
  }: Asked = {}) =>
    areLogsTaken(
      lab.sql,
      { linkId: claimed, network: NETWORK, txHash, payer, isProven },
      nonces.map((authorizationNonce, index) => ({ logIndex: index + 1, authorizationNonce })),
    );
  const areBookedTaken = (isProven = false) => areTaken({ nonces: [randomHash()], isProven });

  test.each(["QUEUED", "SIGNED", "BROADCAST", "MINED", "CONFIRMED"])(
    "a log is taken by its link's payment that is %s",
    async (state) => {
      await setState(state);
      expect(await areTaken()).toBe(true);
    },
  );

  test("a log is free for the payment's own link, and for every link when the payment is FAILED", async () => {
    expect(await areTaken({ claimed: linkId })).toBe(false);
    await setState("FAILED", "NONCE_USED");
    expect(await areTaken()).toBe(false);
  });

  test("a log is free next to a payment of another payer, nonce, network or token", async () => {
    expect(await areTaken({ payer: randomAddress() })).toBe(false);
    expect(await areTaken({ nonces: [randomHash()] })).toBe(false);
    await lab.sql`update payments set network = 'base' where id = ${payment.id}`;
    expect(await areTaken()).toBe(false);
    await lab.sql`
      update payments set network = ${NETWORK}, token = ${randomAddress()} where id = ${payment.id}`;
    expect(await areTaken()).toBe(false);
  });

  test("a log is taken that is recorded for another link, until its block leaves the chain", async () => {
    await bookTransfer(lab, { txHash, link: linkId });
    expect(await areBookedTaken()).toBe(true);
    await lab.sql`update transfers set status = 'ORPHANED' where tx_hash = ${txHash}`;
    expect(await areBookedTaken()).toBe(false);
  });

  test("a log is free that is recorded for the claimed link, for no link, or on another network", async () => {
    await bookTransfer(lab, { txHash, link: other });
    await bookTransfer(lab, { txHash });
    await bookTransfer(lab, { txHash, link: linkId, network: "base" });
    expect(await areBookedTaken()).toBe(false);
  });

  test("a transaction is taken only with every one of its logs", async () => {
    await bookTransfer(lab, { txHash, link: linkId });
    expect(await areTaken({ nonces: [randomHash(), payment.nonce] })).toBe(true);
    expect(await areTaken({ nonces: [randomHash(), randomHash()] })).toBe(false);
  });

  test.each([
    ["early_claim", false],
    ["pay_amount", false],
    ["amount", false],
    ["merchant", true],
    ["authorization", true],
    ["tag", true],
    ["proof", true],
  ] as const)(
    "a log attributed to another link by %s is taken for a proven claim: %p",
    async (settledBy, isTaken) => {
      await bookTransfer(lab, { txHash, link: linkId, settledBy });
      expect(await areBookedTaken(true)).toBe(isTaken);
      expect(await areBookedTaken()).toBe(true);
    },
  );
});
