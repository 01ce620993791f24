/** What the indexer's settlement refuses: a former leader, a block that is not there, a transfer that is not the payment's. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { newSendId } from "../../core/domain/ids.ts";
import { linkTag } from "../../core/domain/link-tag.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { deleteBlocksAbove, insertBlocks } from "../../db/ledger/blocks.ts";
import { keepDecisions } from "../../db/ledger/rebuild-attributions.ts";
import type { Tx } from "../../db/postgres/client.ts";
import { insertOperation } from "../../db/wallet-ops/operations.ts";
import { FencedError, type Term } from "../../indexer/leader-term.ts";
import { applyMissedBlocks } from "../../indexer/settle/apply-missed-blocks.ts";
import { toSpan } from "../../indexer/settle/apply-span.ts";
import { findPriorAttributions } from "../../indexer/settle/keep-rebuild-attributions.ts";
import { OtherBranchError } from "../../indexer/settle/same-branch.ts";
import { settleSeenOperations } from "../../indexer/settle/settle-operations.ts";
import { settleRetroactively } from "../../indexer/settle/settle-retroactively.ts";
import { settleTransfers } from "../../indexer/settle/settle-transfers.ts";
import type { BlockContent, SeenOperation, SeenTransfer } from "../../indexer/source/decode-logs.ts";
import { bookTransfer } from "../support/book-transfer.ts";
import {
  acceptFacilitated,
  type BooksLab,
  claim,
  linkOf,
  makeBlock,
  makeTransfer,
  NETWORK,
  openBooks,
  paidBy,
  paymentOf,
  randomHash,
  read,
  readUpTo,
  UNITS,
} from "../support/ledger-lab.ts";
import { randomAddress, seedLink, seedMerchant } from "../support/seed.ts";
import { untilBlocked } from "../support/until-blocked.ts";

let lab: BooksLab;

beforeAll(async () => {
  lab = await openBooks({ readTo: 100 });
});
afterAll(() => lab?.stop());

const noWallet = () => false;

describe("a facilitated payment", () => {
  test.each([
    ["another recipient", { to: randomAddress() }],
    ["another amount", { amountUnits: UNITS + 1n }],
  ])("fails if its authorization was executed for %s", async (_, otherwise) => {
    const payment = await acceptFacilitated(lab);
    const transfer = makeTransfer(lab, 101, { payment: { ...payment, linkId: "" }, ...otherwise });
    await read(lab, [transfer]);
    expect(await paymentOf(lab, { ...payment, linkId: "" })).toMatchObject({ state: "FAILED", txHash: null });
  });

  test("fails if its authorization was cancelled, and is settled by its own transfer", async () => {
    const [cancelled, paid] = [await acceptFacilitated(lab), await acceptFacilitated(lab)];
    const transfer = makeTransfer(lab, 101, { payment: { ...paid, linkId: "" } });
    await read(lab, [transfer], [{ ...cancelled, linkId: "" }]);
    expect(await paymentOf(lab, { ...cancelled, linkId: "" })).toMatchObject({ state: "FAILED" });
    expect(await paymentOf(lab, { ...paid, linkId: "" })).toMatchObject({
      ...{ state: "CONFIRMED", txHash: transfer.txHash },
    });
  });

  describe("that was shown after its block, of a followed payer", () => {
    async function showLate(to: Hex, isRecipient: (address: Hex) => boolean) {
      const payment = await acceptFacilitated(lab);
      const { payer, nonce } = payment;
      await lab.sql`update payments set recipient = ${to} where id = ${payment.id}`;
      const block = { ...makeBlock(101), timeS: Math.floor(Date.now() / 1000) - 5 };
      const transfer = makeTransfer(lab, 101, { payment: { ...payment, linkId: "" }, to, block });
      const { txHash, logIndex, amountUnits } = transfer;
      await lab.sql.begin((tx) =>
        settleTransfers(tx, {
          ...{ network: NETWORK, transfers: [transfer], operations: [], isRecipient },
          spent: [
            {
              payer,
              nonce,
              blockNumber: 101,
              transfer: { txHash, logIndex, blockNumber: 101, blockTimeS: block.timeS, to, amountUnits },
            },
          ],
          isWatched: (address) => address === payer,
          confirmedAtS: () => Math.floor(Date.now() / 1000),
        }),
      );
      return paymentOf(lab, { ...payment, linkId: "" });
    }

    test("is not settled by its transfer to a stranger", async () => {
      expect(await showLate(randomAddress(), () => false)).toMatchObject({ state: "FAILED" });
    });

    test("is not settled by its transfer to a wallet of ours that is not followed yet: that pays its link", async () => {
      lab.merchant = await seedMerchant(lab.sql);
      const { address } = lab.merchant;
      const linkId = await seedLink(lab.sql, lab.merchant);
      await lab.sql`update payment_links set created_block = 99 where id = ${linkId}`;
      expect(await showLate(address, (to) => to === address)).toMatchObject({ state: "FAILED" });
      expect(await paidBy(lab)).toEqual({ [linkId]: 1 });
    });
  });
});

test("a former leader cannot settle transfers retroactively", async () => {
  lab.merchant = await seedMerchant(lab.sql);
  const [first, second] = [await seedLink(lab.sql, lab.merchant), await seedLink(lab.sql, lab.merchant)];
  const transfer = makeTransfer(lab, 101);
  await read(lab, [transfer]);
  await claim(lab, second, transfer, "EOA");
  const former = { ...lab.term, epoch: 7n };
  await expect(settleRetroactively(former)).rejects.toBeInstanceOf(FencedError);
  expect(await linkOf(lab, second)).not.toMatchObject({ status: "PAID" });
  await settleRetroactively(lab.term);
  expect(await linkOf(lab, second)).toMatchObject({ status: "PAID" });
  expect(await linkOf(lab, first)).not.toMatchObject({ status: "PAID" });
});

describe("a block that was missed", () => {
  const content = (number: number, transfers: SeenTransfer[] = []): BlockContent => {
    const block = transfers[0]?.block ?? makeBlock(number);
    return { block, transfers, spent: [], operations: [], accountLogs: [], logCount: transfers.length };
  };
  const sent = (number: number) =>
    makeTransfer(lab, number, { from: lab.merchant.address, to: randomAddress() });
  const statusOf = async ({ txHash }: SeenTransfer) => {
    const [row] = await lab.sql<{ status: string }[]>`select status from transfers where tx_hash = ${txHash}`;
    return row?.status;
  };
  const term = (given: Partial<Term> = {}): Term => ({
    ...lab.term,
    cursor: { number: 100, hash: "0x" },
    ...given,
  });

  test("is not applied by a former leader", async () => {
    const transfer = sent(90);
    const applied = applyMissedBlocks(term({ epoch: 7n }), [content(90, [transfer])], noWallet);
    await expect(applied).rejects.toBeInstanceOf(FencedError);
    expect(await statusOf(transfer)).toBeUndefined();
  });

  test("is applied once, and its transfer is CONFIRMED only where the cursor is deep enough", async () => {
    await readUpTo(lab, 100);
    const [deep, atCursor] = [sent(100), sent(100)];
    expect(await applyMissedBlocks(term(), [content(100, [deep])], noWallet)).toBe(1);
    expect(await applyMissedBlocks(term(), [content(100, [deep])], noWallet)).toBe(0);
    const waiting = term({ confirmations: 3 });
    expect(await applyMissedBlocks(waiting, [content(100, [atCursor])], noWallet)).toBe(1);
    expect([await statusOf(deep), await statusOf(atCursor)]).toEqual(["CONFIRMED", "DETECTED"]);
  });

  test("is not applied if it leaves the chain before its transaction begins, and the new branch skips its height", async () => {
    await readUpTo(lab, 100);
    const transfer = sent(94);
    const { block } = transfer;
    await lab.sql.begin((tx) => insertBlocks(tx, NETWORK, [block]));
    let applied: Promise<unknown> | undefined;
    await lab.sql.begin(async (tx) => {
      await tx`select from cursors where network = ${NETWORK} for update`;
      applied = applyMissedBlocks(term(), [content(94, [transfer])], noWallet);
      await untilBlocked(lab.sql, applied);
      await deleteBlocksAbove(tx, NETWORK, 93);
      await insertBlocks(tx, NETWORK, [makeBlock(100)]);
    });
    await expect(applied).rejects.toBeInstanceOf(OtherBranchError);
    expect(await statusOf(transfer)).toBeUndefined();
    await deleteBlocksAbove(lab.sql, NETWORK, 93);
  });

  test("is not applied above the cursor, nor where another block was read", async () => {
    await readUpTo(lab, 95);
    const above = sent(96);
    expect(await applyMissedBlocks(term(), [content(96, [above])], noWallet)).toBe(0);
    expect(await statusOf(above)).toBeUndefined();
    await readUpTo(lab, 100);
    await lab.sql`
      insert into blocks (network, number, hash, parent_hash, block_time)
      values (${NETWORK}, 92, ${randomHash()}, '0x', now())`;
    const other = sent(92);
    const applied = applyMissedBlocks(term(), [content(92, [other])], noWallet);
    await expect(applied).rejects.toBeInstanceOf(OtherBranchError);
    expect(await statusOf(other)).toBeUndefined();
  });
});

test("no blocks result in no span", () => {
  expect(toSpan(lab.term, [], makeBlock(101))).toBeUndefined();
});

describe("what a rebuild keeps of earlier decisions", () => {
  const prior = (transfers: readonly SeenTransfer[]) =>
    lab.sql.begin(async (tx: Tx) => {
      await keepDecisions(tx, NETWORK);
      return findPriorAttributions(tx, NETWORK, transfers);
    });

  test("is nothing for no transfers, and the lack of a link for a transfer without one", async () => {
    expect((await prior([])).decided.size).toBe(0);
    lab.merchant = await seedMerchant(lab.sql);
    const transfer = makeTransfer(lab, 101);
    await read(lab, [transfer]);
    expect([...(await prior([transfer])).decided.values()]).toEqual([{ candidates: [] }]);
    const other = makeTransfer(lab, 101);
    await bookTransfer(lab);
    expect((await prior([other])).decided.size).toBe(0);
  });

  test("is what was inferred, unless the transfer names a link of its wallet on its own network", async () => {
    lab.merchant = await seedMerchant(lab.sql);
    const { address, userId } = lab.merchant;
    const linkId = await seedLink(lab.sql, lab.merchant);
    const elsewhere = await seedMerchant(lab.sql, { network: "base", address });
    const namedElsewhere = await seedLink(lab.sql, elsewhere);
    const transfer = makeTransfer(lab, 101, { tag: linkTag(namedElsewhere) });
    await read(lab, [transfer]);
    expect(await paidBy(lab)).toEqual({ [linkId]: transfer.logIndex });
    await lab.sql`update users set match_by_amount = false where id = ${userId}`;
    const kept = { linkId, pays: true, settledBy: "amount" } as const;
    expect([...(await prior([transfer])).decided.values()]).toMatchObject([{ attribution: kept }]);
    const namedHere = { ...transfer, tag: linkTag(await seedLink(lab.sql, lab.merchant)) };
    expect((await prior([namedHere])).decided.size).toBe(0);
  });
});

test("only a successful operation made transfers: those next to a failed one are not its own", async () => {
  const { userId, walletId, address } = await seedMerchant(lab.sql);
  const seen = async (succeeded: boolean): Promise<[SeenOperation, SeenTransfer]> => {
    const [userOpHash, to] = [randomHash(), randomAddress()];
    await insertOperation(lab.sql, {
      ...{ id: newSendId(new Date()), userId, walletId, network: NETWORK, kind: "SEND", userOpHash },
      ...{ accountNonce: 0n, callData: "0x", callGas: 1n, verificationGas: 1n, challengeId: "ch_1" },
      ...{ idempotencyKey: undefined, request: userOpHash, requestId: "req_1", lifeMs: 600_000 },
      items: [{ to, amountUnits: UNITS, note: "", isFee: false }],
      terms: { owners: [], warnings: [], balanceAfter: "0", deploysWallet: false },
    });
    const transfer = makeTransfer(lab, 101, { from: address, to, logIndex: 3 });
    const operation = {
      ...{ block: transfer.block, txHash: transfer.txHash, logIndex: 4, previousLogIndex: 1, userOpHash },
      ...{ sender: address, nonce: 0n, succeeded, gasUsed: 1n, revertData: undefined, executed: undefined },
    };
    return [operation as unknown as SeenOperation, transfer];
  };
  const settle = async (succeeded: boolean) => {
    const [operation, transfer] = await seen(succeeded);
    const given = { operations: [operation], transfers: [transfer], booked: [], attributed: [] };
    const { items } = await lab.sql.begin((tx) => settleSeenOperations(tx, NETWORK, given));
    return items.size;
  };
  expect([await settle(false), await settle(true)]).toEqual([0, 1]);
});
