/**
 * What is compared with the chain, and what is kept of it: the transfers a second reading finds recorded, the wallets whose balance is due, the
 * results, and the number of differences that health and metrics report.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import type { NetworkId } from "../../core/domain/networks.ts";
import { RECONCILIATIONS_KEPT_DAYS } from "../../core/domain/retention.ts";
import {
  countDifferences,
  findBookedLogs,
  findComparedNumber,
  findWalletsToReconcile,
  recordReconciliation,
} from "../../db/ledger/reconciliation.ts";
import { bookTransfer } from "../support/book-transfer.ts";
import { type BooksLab, NETWORK, openBooks } from "../support/ledger-lab.ts";
import { seedMerchant } from "../support/seed.ts";

let lab: BooksLab;

beforeAll(async () => {
  lab = await openBooks();
});
afterAll(() => lab?.stop());
beforeEach(async () => {
  await lab.sql`delete from reconciliations`;
  await lab.sql`delete from transfers`;
  await lab.sql`update wallets set difference_units = 0`;
});

type Found = {
  kind?: string;
  differences?: number;
  repaired?: number;
  hoursAgo?: number;
  network?: NetworkId;
  to?: number;
};

const record = ({
  kind = "LOGS",
  differences = 0,
  repaired = 0,
  hoursAgo = 0,
  network = NETWORK,
  to = 2,
}: Found) =>
  lab.sql`
    insert into reconciliations (network, kind, from_block, to_block, checked, differences, repaired, created_at)
    values (${network}, ${kind}, 1, ${to}, 10, ${differences}, ${repaired}, now() - make_interval(hours => ${hoursAgo}::int))`;
const count = () => countDifferences(lab.sql, NETWORK);

test("nothing is known before the network's first comparison", async () => {
  await record({ network: "base" });
  expect(await count()).toBeUndefined();
  await record({});
  expect(await count()).toBe(0);
});

test.each(["LOGS", "NONCES"])(
  "differences found by a comparison of %s count for a day, except those it repaired",
  async (kind) => {
    await record({ kind, differences: 5, repaired: 2 });
    await record({ kind, differences: 70, hoursAgo: 25 });
    await record({ kind, differences: 900, network: "base" });
    expect(await count()).toBe(3);
  },
);

test("for balances, only the wallets that differ now count, not earlier findings", async () => {
  await record({ kind: "BALANCES", differences: 5 });
  expect(await count()).toBe(0);
  await lab.sql`update wallets set difference_units = -1 where id = ${lab.merchant.walletId}`;
  expect(await count()).toBe(1);
  const elsewhere = await seedMerchant(lab.sql, { network: "base" });
  await lab.sql`update wallets set difference_units = -1 where id = ${elsewhere.walletId}`;
  expect(await count()).toBe(1);
});

test("a second reading finds recorded what is recorded of its blocks: nothing ORPHANED, and nothing of another network", async () => {
  await bookTransfer(lab, { blockNumber: 90, status: "ORPHANED" });
  await bookTransfer(lab, { blockNumber: 90, network: "base" });
  for (const blockNumber of [89, 90, 91, 92]) await bookTransfer(lab, { blockNumber, status: "DETECTED" });
  const found = await findBookedLogs(lab.sql, NETWORK, { from: 90, to: 91 });
  expect(found.map(({ blockNumber }) => Number(blockNumber)).sort()).toEqual([90, 91]);
});

test("wallets are compared that moved after the newest comparison of balances on their network", async () => {
  expect(await findComparedNumber(lab.sql, NETWORK)).toBeUndefined();
  await record({ kind: "BALANCES", to: 50 });
  await record({ kind: "LOGS", to: 60 });
  await record({ kind: "BALANCES", to: 70, network: "base" });
  expect(await findComparedNumber(lab.sql, NETWORK)).toBe(50);
  await record({ kind: "BALANCES", to: 55 });
  expect(await findComparedNumber(lab.sql, NETWORK)).toBe(55);
});

describe("a wallet that moved", () => {
  beforeEach(async () => {
    await lab.sql`
      update wallets
      set backfilled_at = now(), indexed_from = 0, booked_number = 50, reconciled_at = now(), is_counting = false
      where id = ${lab.merchant.walletId}`;
  });
  const isDue = async (number: number, since: number) => {
    const due = await findWalletsToReconcile(lab.sql, NETWORK, { number, since, limit: 10 });
    return due.some(({ id }) => id === lab.merchant.walletId);
  };

  test("is compared when a transfer of it is in the blocks after the last comparison, up to this one's", async () => {
    await bookTransfer(lab, { blockNumber: 99 });
    expect([await isDue(100, 98), await isDue(99, 98)]).toEqual([true, true]);
    expect([await isDue(100, 99), await isDue(98, 97)]).toEqual([false, false]);
  });

  test("is not compared for a transfer that is ORPHANED, or of another network", async () => {
    await bookTransfer(lab, { status: "ORPHANED" });
    await bookTransfer(lab, { network: "base" });
    expect(await isDue(100, 98)).toBe(false);
  });

  test("is not compared again at the block of its sum", async () => {
    await bookTransfer(lab);
    await lab.sql`update wallets set booked_number = 100 where id = ${lab.merchant.walletId}`;
    expect(await isDue(100, 98)).toBe(false);
    expect(await isDue(101, 98)).toBe(true);
  });

  test("is not compared before its past was read, nor at a block before its ledger or its sum", async () => {
    const { walletId } = lab.merchant;
    const isDueWith = async (backfilledAt: Date | null, indexedFrom: number, bookedNumber: number) => {
      await lab.sql`
        update wallets
        set
          difference_units = 1, backfilled_at = ${backfilledAt}, indexed_from = ${indexedFrom},
          booked_number = ${bookedNumber}
        where id = ${walletId}`;
      return isDue(100, 100);
    };
    expect(await isDueWith(new Date(), 101, 100)).toBe(true);
    expect(await isDueWith(null, 101, 100)).toBe(false);
    expect(await isDueWith(new Date(), 102, 100)).toBe(false);
    expect(await isDueWith(new Date(), 101, 101)).toBe(false);
  });
});

test("a result replaces the clean ones of its kind and network, and findings only once they are old", async () => {
  const days = RECONCILIATIONS_KEPT_DAYS * 24;
  await record({ to: 10 });
  await record({ to: 11, differences: 1, hoursAgo: days - 1 });
  await record({ to: 12, differences: 1, hoursAgo: days + 1 });
  await record({ to: 13, kind: "BALANCES" });
  await record({ to: 14, kind: "BALANCES", differences: 1, hoursAgo: days + 1 });
  await record({ to: 15, network: "base" });
  const result = { fromBlock: 1, toBlock: 20, checked: 10, differences: 0, repaired: 0, details: [] };
  await recordReconciliation(lab.sql, { network: NETWORK, kind: "LOGS", ...result });
  const kept = await lab.sql<{ toBlock: bigint }[]>`select to_block from reconciliations order by to_block`;
  expect(kept.map(({ toBlock }) => Number(toBlock))).toEqual([11, 13, 14, 15, 20]);
});
