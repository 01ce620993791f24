/** Which transfers of the past may be stored before it is known what the blocks before them do: each kind of evidence keeps them back. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { newPaymentId } from "../../core/domain/ids.ts";
import { linkTag } from "../../core/domain/link-tag.ts";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { findUnrelated } from "../../indexer/settle/settle-transfers.ts";
import type { SeenOperation, SeenTransfer, SpentAuthorization } from "../../indexer/source/decode-logs.ts";
import {
  accept,
  type BooksLab,
  claim,
  makeTransfer,
  NETWORK,
  openBooks,
  randomHash,
  UNITS,
} from "../support/ledger-lab.ts";
import { randomAddress, seedLink, seedMerchant } from "../support/seed.ts";

const BLOCK = 120;
let lab: BooksLab;
let linkId: string;
beforeAll(async () => {
  lab = await openBooks({ readTo: 100 });
});
afterAll(() => lab?.stop());
beforeEach(async () => {
  lab.merchant = await seedMerchant(lab.sql);
  linkId = await seedLink(lab.sql, lab.merchant);
});

function find(
  transfers: readonly SeenTransfer[],
  {
    spent,
    operations = [],
    isWatched = (address) => address === lab.merchant.address,
  }: {
    spent?: SpentAuthorization[];
    operations?: SeenOperation[];
    isWatched?: (address: Hex) => boolean;
  } = {},
) {
  const executed = transfers.flatMap(({ from: payer, authorizationNonce: nonce }) =>
    nonce ? [{ payer, nonce, blockNumber: 1 }] : [],
  );
  return findUnrelated(lab.sql, {
    ...{ network: NETWORK, transfers, spent: spent ?? executed, operations },
    isWatched,
    isRecipient: (address) => address === lab.merchant.address,
    confirmedAtS: () => 1_700_000_000,
  });
}

/** That no link asks for. */
const otherUnits = UNITS + 1n;
const plain = (fields: Partial<SeenTransfer> = {}) =>
  makeTransfer(lab, BLOCK, { amountUnits: otherUnits, ...fields });

describe("not held back", () => {
  test("is a transfer of another amount, with an authorization and an unknown tag", async () => {
    const transfer = plain({ authorizationNonce: randomHash(), tag: `0x${"12".repeat(16)}` });
    expect(await find([transfer])).toEqual([
      expect.objectContaining({ txHash: transfer.txHash, linkId: undefined, pays: false, candidates: [] }),
    ]);
  });

  test("is one that leaves one of our wallets with a link's amount for another address", async () => {
    const sent = plain({ from: lab.merchant.address, to: randomAddress(), amountUnits: UNITS });
    expect(await find([sent])).toHaveLength(1);
  });

  test("is one of a link's amount from before the link", async () => {
    await lab.sql`update payment_links set created_block = ${BLOCK} where id = ${linkId}`;
    expect(await find([plain({ amountUnits: UNITS })])).toHaveLength(1);
    await lab.sql`update payment_links set created_block = ${BLOCK - 1} where id = ${linkId}`;
    expect(await find([plain({ amountUnits: UNITS })])).toBeUndefined();
  });
});

describe("held back with its entire range", () => {
  test("is a transfer of a link's amount to a wallet that is not watched yet", async () => {
    const transfer = plain({ amountUnits: UNITS });
    expect(await find([transfer], { isWatched: (address) => address === transfer.from })).toBeUndefined();
  });

  test("is a transfer of an open link's amount, and of an expired one's", async () => {
    expect(await find([plain(), plain({ amountUnits: UNITS })])).toBeUndefined();
    await lab.sql`update payment_links set expires_at = now() - interval '1 minute' where id = ${linkId}`;
    expect(await find([plain(), plain({ amountUnits: UNITS })])).toBeUndefined();
  });

  test("is one whose calldata or nonce carries a link's tag", async () => {
    const tag = linkTag(linkId);
    expect(await find([plain({ tag })])).toBeUndefined();
    const nonce: Hex = `${tag}${"0".repeat(32)}`;
    expect(await find([plain({ authorizationNonce: nonce })])).toBeUndefined();
  });

  test("is one whose transaction is claimed, until the claim is rejected", async () => {
    const transfer = plain();
    const id = await claim(lab, linkId, transfer);
    expect(await find([transfer])).toBeUndefined();
    await lab.sql`update claims set state = 'REJECTED' where id = ${id}`;
    expect(await find([transfer])).toHaveLength(1);
  });

  test("is one that the merchant has assigned, even to no link", async () => {
    const transfer = plain();
    await lab.sql`
      insert into assignments (network, tx_hash, log_index, user_id, link_id)
      values (${NETWORK}, ${transfer.txHash}, ${transfer.logIndex}, ${lab.merchant.userId}, null)`;
    expect(await find([transfer])).toBeUndefined();
  });

  test("is a range that spends or cancels a payment's authorization, whoever its transfer pays", async () => {
    const payment = await accept(lab, linkId);
    if (!payment) throw new Error("the link accepted no payment");
    const { payer, nonce } = payment;
    const blockNumber = 1;
    expect(await find([plain()], { spent: [{ payer, nonce, blockNumber }] })).toBeUndefined();
    expect(await find([], { spent: [{ payer, nonce, blockNumber }] })).toBeUndefined();
    expect(await find([], { spent: [{ payer: randomAddress(), nonce, blockNumber }] })).toEqual([]);
    expect(await find([], { spent: [{ payer, nonce: randomHash(), blockNumber }] })).toEqual([]);
  });

  test("is a range that spends a facilitated payment's authorization", async () => {
    const [payer, nonce] = [randomAddress(), randomHash()];
    await lab.sql`
      insert into payments (
        id, facilitator_user_id, facilitator_key_id, network, token, payer, payer_kind, recipient, amount_units,
        valid_after, valid_before, nonce, signature
      )
      values (
        ${newPaymentId()}, ${lab.merchant.userId}, 'key', ${NETWORK}, ${NETWORKS[NETWORK].usdc.address}, ${payer}, 'EOA',
        ${randomAddress()}, 1, 0, 9999999999, ${nonce}, '0x'
      )`;
    expect(await find([plain()], { spent: [{ payer, nonce, blockNumber: 1 }] })).toBeUndefined();
  });

  test("is a range with an operation of one of our wallets", async () => {
    const { block } = plain();
    const operation: SeenOperation = {
      ...{ block, txHash: randomHash(), logIndex: 2, previousLogIndex: -1, userOpHash: randomHash() },
      ...{ sender: lab.merchant.address, nonce: 0n, succeeded: true, gasUsed: 1n, revertData: undefined },
    };
    expect(await find([plain()], { operations: [operation] })).toBeUndefined();
  });
});
