/** An account that its owner has upgraded may say that its calls succeeded without making them: such a refund does not count. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { confirmDeepOperations } from "../../db/wallet-ops/confirm-operations.ts";
import { settleSeenOperations } from "../../indexer/settle/settle-operations.ts";
import type { SeenOperation, SeenTransfer } from "../../indexer/source/decode-logs.ts";
import {
  type BooksLab,
  makeTransfer,
  NETWORK,
  openBooks,
  randomHash,
  read,
  UNITS,
} from "../support/ledger-lab.ts";
import { randomAddress, seedLink } from "../support/seed.ts";

setDefaultTimeout(120_000);
/** What an item's column holds. */
const MOST_UNITS = 2n ** 63n - 1n;

let lab: BooksLab;
let linkId: string;
let linkTag: Hex;
beforeAll(async () => {
  lab = await openBooks({ readTo: 100 });
  linkId = await seedLink(lab.sql, lab.merchant);
  await read(lab, [makeTransfer(lab, 101)]);
  const [row] = await lab.sql<
    { tag: Hex }[]
  >`select hex_of(tag) as tag from payment_links where id = ${linkId}`;
  linkTag = row?.tag ?? "0x";
});
afterAll(() => lab?.stop());

/** A refund of the link whose row is lost, and the transfer that it should have made. */
function refund(amountUnits: bigint): { operation: SeenOperation; transfer: SeenTransfer } {
  const { address } = lab.merchant;
  const to = randomAddress();
  const transfer = makeTransfer(lab, 102, { from: address, to, amountUnits, logIndex: 3 });
  const executed = {
    ...{ callData: "0x" as Hex, callGas: 1n, verificationGas: 1n, linkTag },
    ...{ tag: randomHash().slice(0, 34) as Hex, items: [{ to, amountUnits }] },
  };
  const operation = {
    ...{ block: transfer.block, txHash: transfer.txHash, logIndex: 4, previousLogIndex: 1, executed },
    ...{
      userOpHash: randomHash(),
      sender: address,
      nonce: 0n,
      succeeded: true,
      gasUsed: 1n,
      revertData: undefined,
    },
  };
  return { operation, transfer };
}

async function settle({ operation, transfer }: ReturnType<typeof refund>, { isMoved = false } = {}) {
  const seen = { operations: [operation], transfers: isMoved ? [transfer] : [], booked: [], attributed: [] };
  const { operationIds } = await lab.sql.begin((tx) => settleSeenOperations(tx, NETWORK, seen));
  await confirmDeepOperations(lab.sql, { network: NETWORK, depthNumber: 102 });
  return operationIds.length;
}

const refundedUnits = async () => {
  const [row] = await lab.sql<{ units: bigint }[]>`
    select refunded_units as units from payment_links where id = ${linkId}`;
  return row?.units;
};

test("a refund is restored only with its transfer, so that no link's refunds exceed what a row holds", async () => {
  await settle(refund(MOST_UNITS));
  await settle(refund(MOST_UNITS));
  expect(await refundedUnits()).toBe(0n);
  expect(await settle(refund(UNITS), { isMoved: true })).toBe(1);
  expect(await refundedUnits()).toBe(UNITS);
});
